import json
import socket

import pytest

from posvit_tf.errors import UserError
from posvit_tf.training import cluster, peers, strategy

WORKERS = {"worker": ["a:1", "b:1", "c:1"]}


def given(monkeypatch, content):
    monkeypatch.setenv("TF_CONFIG", content if isinstance(content, str) else json.dumps(content))


def test_tf_config_names_the_place(tiny, monkeypatch):
    given(monkeypatch, {"cluster": WORKERS, "task": {"type": "worker", "index": 2}})
    for kind in ("auto", "multiworker"):
        place = cluster.place(tiny({"strategy": kind}))
        assert place == (2, 3) and not place.chief
    assert cluster.place(tiny({"strategy": "one"})) == (0, 1)


def test_slurm_names_the_place_and_the_hosts(tiny, monkeypatch):
    step = {
        "PROCID": "2",
        "STEP_NUM_TASKS": "3",
        "STEP_NODELIST": "n[1-2]",
        "STEP_TASKS_PER_NODE": "2,1",
    }
    for name, value in step.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    place = cluster.place(tiny({"strategy": "auto"}))
    assert place == (2, 3)
    resolver = strategy.slurm(place)
    assert resolver.cluster_spec().as_dict() == {"worker": ["n1:8888", "n1:8889", "n2:8888"]}
    assert (resolver.task_type, resolver.task_id) == ("worker", 2)
    assert resolver.num_accelerators() == {"GPU": 0}


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        {"cluster": WORKERS},
        {"cluster": WORKERS, "task": {"type": "worker", "index": 3}},
        {"cluster": {**WORKERS, "ps": ["d:1"]}, "task": {"type": "worker", "index": 0}},
        {"cluster": WORKERS, "task": {"type": "chief", "index": 0}},
        {"cluster": WORKERS, "task": {"type": "worker", "index": 1.7}},
        {"cluster": {"worker": "a:1"}, "task": {"type": "worker", "index": 0}},
        {"cluster": {"worker": ["a:1", "a:1"]}, "task": {"type": "worker", "index": 0}},
        {"cluster": {"worker": ["a", "b:1"]}, "task": {"type": "worker", "index": 0}},
    ],
)
def test_a_tf_config_that_is_none_is_one_clear_line(tiny, monkeypatch, content):
    given(monkeypatch, content)
    with pytest.raises(UserError, match="TF_CONFIG=.* is not understood .*index") as error:
        cluster.place(tiny({"strategy": "auto"}))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("index", "count"), [("x", "2"), ("", ""), ("5", "2")])
def test_slurm_variables_that_are_none_are_one_clear_line(tiny, monkeypatch, index, count):
    monkeypatch.setenv("SLURM_PROCID", index)
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", count)
    with pytest.raises(UserError, match="SLURM_PROCID=.*srun"):
        cluster.place(tiny({"strategy": "auto"}))


def test_processes_wait_for_each_other_and_not_for_ever(monkeypatch):
    with socket.create_server(("localhost", 0)) as a, socket.create_server(("localhost", 0)) as b:
        workers = [f"localhost:{s.getsockname()[1]}" for s in (a, b)]
        with pytest.raises(UserError, match=f"process 0 of 2 cannot listen at {workers[0]}"):
            peers.meet(workers, cluster.Place(0, 2))
    monkeypatch.setattr(peers, "START_SECONDS", 0.5)
    with pytest.raises(UserError, match=f"process 1 of 2 waited 0.5 s for {workers[0]}"):
        peers.meet(workers, cluster.Place(1, 2))
    monkeypatch.setattr(peers, "START_SECONDS", 20)
    with socket.create_server(("localhost", int(workers[0].rpartition(":")[2]))):
        peers.meet(workers, cluster.Place(1, 2))
