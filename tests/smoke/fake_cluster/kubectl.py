#!/usr/bin/env python3
"""kubectl for indexed Jobs and JobSets: pods are processes of this machine.

A pod's command runs with its variables; field references are filled in, and names of pods become 127.0.0.1. A Job keeps to its
podFailurePolicy and backoffLimit, a JobSet to its failurePolicy.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import uuid

import yaml

STATE = pathlib.Path(os.environ["FAKE_CLUSTER"])


def manifests(path):
    return {each["kind"]: each for each in yaml.safe_load_all(pathlib.Path(path).read_text())}


def write(name, state):
    draft = STATE / f"{name}.{os.getpid()}"
    draft.write_text(json.dumps(state))
    draft.rename(STATE / f"{name}.json")


def variables(container, index, uid):
    found = {}
    for each in container["env"]:
        if "value" in each:
            found[each["name"]] = each["value"]
        elif "fieldRef" in each["valueFrom"]:
            found[each["name"]] = str(index) if "completion-index" in each["valueFrom"]["fieldRef"]["fieldPath"] else uid
    found["PET_MASTER_ADDR"] = "127.0.0.1"
    found["PET_MASTER_PORT"] = os.environ["FAKE_PORT"]
    return found


def start_pod(spec, recipe, index, uid):
    container = spec["template"]["spec"]["containers"][0]
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    words = [word.replace(mounts["recipe"] + "/recipe.yaml", recipe).replace(mounts["mount-0"], os.environ["FAKE_VOLUME"])
             for word in container["command"] + container["args"]]
    with open(STATE / f"pod-{index}.log", "a") as log:
        return subprocess.Popen(words, env=dict(os.environ, JOB_COMPLETION_INDEX=str(index), **variables(container, index, uid)),
                                stdout=log, stderr=log, start_new_session=True)


def rule_of(spec, code):
    """(index, action) of the rule for a pod's end."""
    for index, rule in enumerate(spec["podFailurePolicy"]["rules"]):
        if code in rule.get("onExitCodes", {}).get("values", []):
            return index, rule["action"]
    return None, "Count"


def run_job(spec, recipe, name):
    """Runs a Job; None when it completes, else (reason, message)."""
    uid, failures = str(uuid.uuid4()), 0
    pods = {index: start_pod(spec, recipe, index, uid) for index in range(spec["completions"])}
    try:
        while pods:
            write(name, {"state": "", "pods": {index: pod.pid for index, pod in pods.items()}})
            index, pod = next(((i, p) for i, p in pods.items() if p.poll() is not None), (None, None))
            if pod is None:
                time.sleep(0.02)
                continue
            del pods[index]
            if pod.returncode == 0:
                continue
            code = pod.returncode if pod.returncode > 0 else 128 - pod.returncode
            rule, action = rule_of(spec, code)
            if action == "FailJob":
                return "PodFailurePolicy", f"Container node failed with exit code {code} matching FailJob rule at index {rule}"
            failures += action == "Count"
            if failures > spec["backoffLimit"]:
                return "BackoffLimitExceeded", f"exit code {code}"
            pods[index] = start_pod(spec, recipe, index, uid)
        return None
    finally:
        for pod in pods.values():
            os.killpg(pod.pid, signal.SIGKILL)
            pod.wait()


def action_of(policy, failure):
    for rule in policy["rules"]:
        if failure[0] in rule["onJobFailureReasons"] and any(re.search(p, failure[1]) for p in rule["onJobFailureMessagePatterns"]):
            return rule["action"]
    return "RestartJobSet"


def run(found, recipe):
    kind = "Job" if "Job" in found else "JobSet"
    name, spec, restarts, starts = found[kind]["metadata"]["name"], found[kind]["spec"], 0, 0
    while True:
        starts += 1
        inner = spec if kind == "Job" else spec["replicatedJobs"][0]["template"]["spec"]
        failure = run_job(inner, recipe, name)
        action = action_of(spec["failurePolicy"], failure) if failure and kind == "JobSet" else "Fail"
        if failure is None or not action.startswith("Restart") or (
                action == "RestartJobSet" and restarts >= spec["failurePolicy"]["maxRestarts"]):
            write(name, {"state": "Complete" if failure is None else "Failed", "starts": starts, "failure": failure, "pods": {}})
            return
        restarts += action == "RestartJobSet"


def main(words):
    if words[0] == "apply":
        found = manifests(words[2])
        kind = "Job" if "Job" in found else "JobSet"
        name = found[kind]["metadata"]["name"]
        known = (STATE / f"{name}.json").exists()
        print(f"service/{name} unchanged\n{kind.lower()}.group/{name} {'unchanged' if known else 'created'}")
        if known:
            return 0
        recipe = STATE / "recipe.yaml"
        recipe.write_text(found["ConfigMap"]["data"]["recipe.yaml"])
        if os.fork() == 0:
            os.setsid()
            nothing = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(nothing, descriptor)
            run(found, str(recipe))
            os._exit(0)
        return 0
    if words[0] == "get":
        state = json.loads((STATE / f"{words[1].split('/')[1]}.json").read_text())
        print(state["state"] if "jsonpath" in words[3] else words[1])
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
