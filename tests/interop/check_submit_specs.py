#!/usr/bin/env python3
"""Specs of `submit` against the published models: Kubernetes', JobSet's and TrainJob's of kubeflow-trainer-api, SageMaker's
of botocore. Also the schemas of tests/unit/runner/submit against these.

    check_submit_specs.py ACCEL_RUN
"""

import json
import pathlib
import re
import subprocess
import sys

import botocore.session
import botocore.validate
import yaml
from kubeflow_trainer_api import models

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/smoke"))  # last: it has names of packages
import runs  # noqa: E402

SCHEMAS = ROOT / "tests/unit/runner/submit/schemas"
MODELS = {
    "ConfigMap": models.IoK8sApiCoreV1ConfigMap,
    "Service": models.IoK8sApiCoreV1Service,
    "Job": models.IoK8sApiBatchV1Job,
    "JobSet": models.JobsetV1alpha2JobSet,
    "TrainJob": models.TrainerV1alpha1TrainJob,
}
PODS = """submit:
  to: %s
  nodes: 2
  gpus: 4
  cpus: 16
  memory: 64 GiB
  time: 4 h
  image: registry.example/accel-run:0.1
  queue: team-a
  account: trainer
  retries: 2
  mounts: ['pvc/runs:/work', 'pvc/data:/data:ro', '/fast:/fast']
  env: {NCCL_DEBUG: WARN, DEBUG: 'yes', NUMBER: '1', EMPTY: '', WANDB_API_KEY: '${secret:wandb/api-key}'}
  extra:
    namespace: research
    labels: {team: vision}
    annotations: {note: 'on'}
    pod: {nodeSelector: {gpu: h100}, tolerations: [{key: gpu, operator: Exists}]}
"""
LEAST_PODS = "submit: {to: %s, image: x, mounts: ['pvc/a:/work']}\n"
SAGEMAKER = """submit:
  to: sagemaker
  nodes: 2
  gpus: 8
  time: 4 h
  image: 123456789012.dkr.ecr.eu-west-1.amazonaws.com/accel-run:0.1
  account: 'arn:aws:iam::123456789012:role/trainer'
  retries: 30
  mounts: ['s3://bucket/digits:/opt/ml/input/data/train', 'fsx/fs-0123456789a/runs:/opt/ml/input/data/shared']
  env: {NCCL_DEBUG: WARN, EMPTY: ''}
  extra:
    instance_type: ml.p4d.24xlarge
    output: s3://bucket/runs/
    metrics: {loss: 'loss ([0-9.]+)'}
    request: {EnableManagedSpotTraining: true, StoppingCondition: {MaxWaitTimeInSeconds: 28800}}
"""
LEAST_SAGEMAKER = """submit: {to: sagemaker, image: x, account: 'arn:aws:iam::123456789012:role/trainer',
  extra: {instance_type: ml.m5.large, output: s3://bucket/runs}}
"""


def spec(binary, config, *words):
    """What `submit --print` prints."""
    with runs.Scratch(binary) as scratch:
        (scratch.path / "cluster.yaml").write_text(config)
        done = subprocess.run([scratch.binary, "submit", "job.yaml", "--config", "cluster.yaml", "--print", "train.batch=32", *words],
                              cwd=scratch.path, text=True, capture_output=True, check=False)
        return done.stdout, done.stderr


def differences(given, read, path):
    """Values of `given` that a model does not have after it has read them: fields that it does not know."""
    if isinstance(given, dict) and isinstance(read, dict):
        return [line for key, value in given.items() for line in differences(value, read.get(key), f"{path}.{key}")]
    if isinstance(given, list) and isinstance(read, list) and len(given) == len(read):
        return [line for index, (one, other) in enumerate(zip(given, read)) for line in differences(one, other, f"{path}[{index}]")]
    return [] if given == read else [f"{path}: {given!r} is read as {read!r}"]


def check_pods(binary, report, name, config):
    text, errors = spec(binary, config)
    kinds = []
    for manifest in yaml.safe_load_all(text):
        kind = manifest["kind"]
        kinds.append(kind)
        try:
            read = json.loads(MODELS[kind].from_json(json.dumps(manifest)).to_json())
            found = differences(manifest, read, kind)
        except ValueError as error:
            found = [str(error)]
        report.check(f"{name}: the model of {kind} reads it", not found, "\n".join(found))
    report.check(f"{name}: it has manifests", len(kinds) > 1, errors)


def violations(value, shape, path):
    """What botocore's validator does not check: patterns and enums."""
    if shape.type_name == "structure":
        return [line for key, inner in value.items() for line in violations(inner, shape.members[key], f"{path}.{key}")]
    if shape.type_name == "list":
        return [line for inner in value for line in violations(inner, shape.member, f"{path}[]")]
    if shape.type_name == "map":
        return [line for key, inner in value.items() for part, member in ((key, shape.key), (inner, shape.value))
                for line in violations(part, member, f"{path}.{key}")]
    wanted = shape.metadata.get("enum", [value])
    pattern = shape.metadata.get("pattern")
    fits = value in wanted and (not pattern or re.fullmatch(pattern, value) is not None)
    return [] if fits else [f"{path} is {value!r}"]


def check_sagemaker(binary, report, name, config, shape):
    text, errors = spec(binary, config)
    report.check(f"{name}: it has a request", text.startswith("{"), errors)
    if not text:
        return
    request = json.loads(text)
    found = botocore.validate.ParamValidator().validate(request, shape).generate_report()
    report.check(f"{name}: botocore takes it", found == "", found)
    lines = violations(request, shape, "request") if not found else []
    report.check(f"{name}: with its patterns and enums", not lines, "\n".join(lines))


def check_schema(schema, shape, all_schemas, path):
    """Where the reduced schema of SageMaker differs from the published one."""
    schema = all_schemas[schema["$ref"]] if "$ref" in schema else schema
    limits = shape.metadata
    names = {"structure": "object", "map": "object", "list": "array"}
    found = [] if schema["type"] == names.get(shape.type_name, shape.type_name) else [f"{path} is of type {shape.type_name}"]
    for key, published in (("enum", "enum"), ("maxLength" if schema["type"] == "string" else "maxItems", "max")):
        if key in schema and published in limits and schema[key] != limits[published]:
            found.append(f"{path}: {key} is {schema[key]}, published {limits[published]}")
    if schema["type"] == "array":
        return found + check_schema(schema["items"], shape.member, all_schemas, path + "[]")
    if shape.type_name != "structure":
        return found
    if sorted(schema.get("required", [])) != sorted(limits.get("required", [])):
        found.append(f"{path} requires {limits.get('required')}")
    for key, inner in schema["properties"].items():
        if key in shape.members:
            found += check_schema(inner, shape.members[key], all_schemas, f"{path}.{key}")
        else:
            found.append(f"{path} has no {key}")
    return found


def main():
    binary, report = sys.argv[1], runs.Report()
    for target in ("job", "jobset", "trainjob"):
        check_pods(binary, report, target, PODS % target)
        check_pods(binary, report, f"least {target}", LEAST_PODS % target)
    shape = botocore.session.get_session().get_service_model("sagemaker").operation_model("CreateTrainingJob").input_shape
    check_sagemaker(binary, report, "sagemaker", SAGEMAKER, shape)
    check_sagemaker(binary, report, "least sagemaker", LEAST_SAGEMAKER, shape)
    schemas = json.loads((SCHEMAS / "sagemaker.json").read_text())
    found = check_schema(schemas["CreateTrainingJob"], shape, schemas, "CreateTrainingJob")
    report.check("the schema of the unit tests is SageMaker's", not found, "\n".join(found))
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
