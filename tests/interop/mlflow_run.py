"""What MLflow's client must find of the run that tests/unit/track/resumed_run.h logs."""

import math
import tempfile

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def only_run(client, experiment="tests"):
    found = client.get_experiment_by_name(experiment)
    assert found, "the experiment is missing"
    runs = client.search_runs([found.experiment_id])
    assert len(runs) == 1, f"{len(runs)} runs instead of one"
    return client.get_run(runs[0].info.run_id)


def check(client, run):
    history = client.get_metric_history(run.info.run_id, "train/loss")
    found = sorted((point.step, point.value) for point in history)
    wanted = [(step, (1 if step <= 100 else 2) / step) for step in range(1, 151)]
    assert [step for step, _ in found] == [step for step, _ in wanted], "a step is missing or doubled"
    assert found == wanted
    assert math.isnan(client.get_metric_history(run.info.run_id, "train/nan")[0].value)
    assert run.data.metrics["eval/accuracy"] == 0.5
    assert run.data.params == {"optimizer.lr": "0.001", "train.deterministic": "true", "model.type": "mlp"}
    assert run.data.tags["note"] == "**bold** \u00e9 \ufffd"
    assert run.data.tags["mlflow.source.git.commit"] == COMMIT
    assert run.data.tags["mlflow.note.content"] == "tried"
    assert (run.info.run_name, run.info.status) == ("run", "FINISHED")
    assert run.info.end_time >= run.info.start_time > 0
    files = [item.path for item in client.list_artifacts(run.info.run_id, "images")]
    assert files == ["images/sample_1.png"], files
    with tempfile.TemporaryDirectory() as folder:
        path = client.download_artifacts(run.info.run_id, files[0], folder)
        with open(path, "rb") as image:
            assert image.read(8) == b"\x89PNG\r\n\x1a\n"
    print("the run is as it was logged")
