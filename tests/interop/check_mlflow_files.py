"""Reads a file store of the mlflow tracker with MLflow's own client.

Usage: check_mlflow_files.py FOLDER
FOLDER is the mlruns that tests/unit/track/tracker_interop_test.cpp writes: 120 steps, killed in the
middle of a line and resumed from step 100, up to step 150.
"""

import os
import sys

os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"

from mlflow.tracking import MlflowClient  # noqa: E402

import mlflow_run  # noqa: E402


def main():
    client = MlflowClient(tracking_uri=sys.argv[1])
    run = mlflow_run.only_run(client)
    mlflow_run.check(client, run)


if __name__ == "__main__":
    main()
