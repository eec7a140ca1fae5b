"""Objects that boto3 uploads to moto's S3 server: a run streams the samples that the files on the disk have, with keys
of the environment, of STS's web identity and of a container. Tokens of single sign-on are renewed as botocore does.

    python tests/interop/check_streaming.py ACCEL_RUN
"""

import http.server
import json
import logging
import os
import sys
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/smoke"))  # last: it has names of packages

import object_server
import runs
import streaming

import boto3
import botocore.credentials
import botocore.session
from moto.server import ThreadedMotoServer

REGION = "eu-central-1"
# find_credential_provider() has this order; "boto" has no counterpart.
ORDER = ["env", "assume-role", "assume-role-with-web-identity", "sso", "shared-credentials-file", "login",
         "custom-process", "config-file", "ec2-credentials-file", "boto-config", "container-role", "iam-role"]


def check_order(report):
    chain = botocore.credentials.create_credential_resolver(botocore.session.Session()).providers
    found = [provider.METHOD for provider in chain]
    report.check("botocore's chain has the order of docs/streaming.md", found == ORDER, found)


class Container(http.server.BaseHTTPRequestHandler):
    """The credentials server of a container."""

    def log_message(self, *_):
        pass

    def do_GET(self):  # noqa: N802
        keys = {"AccessKeyId": "container", "SecretAccessKey": "s", "Token": "t", "Expiration": "2100-01-01T00:00:00Z"}
        body = json.dumps(keys).encode()
        self.send_response(200 if self.headers.get("Authorization") == "Bearer of pods" else 403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def upload(url, folders):
    client = boto3.client("s3", endpoint_url=url, region_name=REGION, aws_access_key_id="a", aws_secret_access_key="b")
    client.create_bucket(Bucket="corpora", CreateBucketConfiguration={"LocationConstraint": REGION})
    for folder in folders:
        for path in sorted(folder.iterdir()):
            client.upload_file(str(path), "corpora", f"web/{folder.name}/{path.name}")


def sources(url, folder):
    """Environment variables of each source of credentials."""
    (folder / "jwt").write_text("a.b.c")
    container = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Container)
    threading.Thread(target=container.serve_forever, daemon=True).start()
    (folder / "pod").write_text("Bearer of pods")
    return {
        "keys of the environment": {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"},
        "the web identity of a pod": {"AWS_WEB_IDENTITY_TOKEN_FILE": str(folder / "jwt"),
                                      "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/train"},
        "the credentials server of a container": {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"http://127.0.0.1:{container.server_port}/v1",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(folder / "pod")},
    }


def check_runs(scratch, url, report):
    streaming.write_folder(scratch.path / "corpus", streaming.corpus(shards=2, tokens=200_000))
    streaming.write_folder(scratch.path / "tars", {f"shard-{i:03}.tar": streaming.archive(i * 10, 10) for i in range(3)})
    (scratch.path / "texts.txt").write_text("she sells sea shells by the shore 0 1 2 3 4 5 6 7 8 9\n" * 20)
    scratch.finish("tokenizer", "train", "texts.txt", "--vocab-size", "280", "--out", "words")
    upload(url, [scratch.path / "corpus", scratch.path / "tars"])
    tokens = {path: streaming.JOB.format(path=path, more="", loader="", steps=20)
              for path in ("corpus", "s3://corpora/web/corpus")}
    texts = {path: streaming.TEXT_JOB.format(type="webdataset", path=path, text="txt", more="")
             for path in (str(scratch.path / "tars"), "s3://corpora/web/tars")}
    for recipes in (tokens, texts):
        (disk, recipe), (remote, streamed) = recipes.items()
        code, _, errors = scratch.train("disk", recipe)
        report.check(f"'{Path(disk).name}' trains from the disk", code == 0, errors)
        wanted = scratch.results()
        for name, variables in sources(url, scratch.path).items():
            scratch.empty_cache()
            scratch.environment.update(AWS_ENDPOINT_URL=url, AWS_REGION=REGION, AWS_EC2_METADATA_DISABLED="true", **variables)
            code, _, errors = scratch.train("streamed", streamed)
            report.check(f"'{remote}' has the same samples, with {name}", code == 0 and scratch.results() == wanted, errors)
            for variable in variables:
                del scratch.environment[variable]


def token_of_botocore(server, home):
    """The file of a token that botocore has renewed in a new process: it reads HOME when it is imported."""
    token = object_server.write_sso_home(home)
    code = "import botocore.session as s; print(s.Session().get_credentials().get_frozen_credentials().access_key)"
    done = runs.subprocess.run([sys.executable, "-c", code], text=True, stdout=runs.subprocess.PIPE, check=True,
                               env=dict(os.environ, **server.sso_environment, HOME=str(home)))
    return token, done.stdout.strip()


def check_single_sign_on(scratch, report):
    """accel-run and botocore ask for the same renewal and leave the same file; each reads that of the other."""
    body = streaming.corpus(shards=1, tokens=40_000)
    objects = {f"bucket/small/{name}": content for name, content in body.items()}
    theirs, ours = object_server.Server(objects), object_server.Server(objects)
    their_token, key = token_of_botocore(theirs, scratch.path / "theirs")
    report.check("botocore renews the token", key == object_server.KEY and len(theirs.tokens_created) == 1, key)
    our_token = object_server.write_sso_home(scratch.path / "ours")
    recipe = streaming.JOB.format(path="s3://bucket/small", more="", loader="", steps=4)
    scratch.environment.update(ours.sso_environment, HOME=str(scratch.path / "ours"))
    code, _, errors = scratch.train("sso", recipe)
    report.check("accel-run renews it too", code == 0, errors)
    report.check("with the same request", ours.tokens_created == theirs.tokens_created, ours.tokens_created)
    files = [json.loads(path.read_text()) for path in (our_token, their_token)]
    expirations = [file.pop("expiresAt") for file in files]
    report.check("and leaves the same file", files[0] == files[1] and list(files[0]) == list(files[1])
                 and [len(text) for text in expirations] == [len("2027-01-15T08:00:00Z")] * 2, (files, expirations))
    report.check("with the same mode", our_token.stat().st_mode == their_token.stat().st_mode)
    scratch.environment.update(theirs.sso_environment, HOME=str(scratch.path / "theirs"))
    code, _, errors = scratch.train("sso", recipe)
    report.check("accel-run uses the token of botocore", code == 0 and len(theirs.tokens_created) == 1, errors)


def main():
    os.environ.update(NO_PROXY="127.0.0.1", no_proxy="127.0.0.1")
    report = runs.Report()
    check_order(report)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    with streaming.Scratch(sys.argv[1]) as scratch:
        check_runs(scratch, f"http://127.0.0.1:{port}", report)
        check_single_sign_on(scratch, report)
    server.stop()
    sys.exit(report.failed > 0)


if __name__ == "__main__":
    main()
