"""The processes of a run find each other, and each ends when another is gone. Imports no TensorFlow."""

import os
import select
import socket
import sys
import threading
import time

from posvit_tf.errors import UserError
from posvit_tf.training.cluster import Place

START_SECONDS = 300  # that a process waits for the others to start
GRACE_SECONDS = 15.0  # that TensorFlow has to notice a lost process itself

LOST = (
    "process {0} of {1} lost another one: start all of them again with the same commands, and the run goes "
    "on from its last checkpoint"
)


def meet(workers: list[str], place: Place) -> list[socket.socket]:
    """Returns when every process has called this. TensorFlow itself waits deaf to signals, for ever.

    Args:
        workers: HOST:PORT of each process.
        place: of this one.

    Returns:
        Open connections: the chief's to each other process, and theirs to it.

    Raises:
        UserError: this process cannot listen at its port, or others do not answer in START_SECONDS.
    """
    own = workers[place.index]
    try:
        listener = socket.create_server(("", int(own.rpartition(":")[2])))
    except (OSError, OverflowError) as error:
        raise UserError(
            f"process {place.index} of {place.count} cannot listen at {own} ({error}): "
            "choose a free port, in every process's TF_CONFIG"
        ) from None
    deadline = time.monotonic() + START_SECONDS
    connections = []
    with listener:
        for worker in workers:
            host, _, port = worker.rpartition(":")
            while worker != own:
                try:
                    connection = socket.create_connection((host, int(port)), timeout=2)
                    break
                except (OSError, OverflowError) as error:
                    if time.monotonic() > deadline:
                        raise UserError(
                            f"process {place.index} of {place.count} waited {START_SECONDS} s for "
                            f"{worker} ({error}): start the same command there, too"
                        ) from None
                    time.sleep(0.2)
            if worker != own and worker == workers[0]:
                connections.append(connection)
            elif worker != own:
                connection.close()
        listener.settimeout(START_SECONDS)
        while place.chief and len(connections) < place.count - 1:
            connections.append(listener.accept()[0])  # they have answered, so they are here at once
    return connections


class Watch:
    """Ends this process, with the exit code 2 and a line, when another has ended before `stop`.

    TensorFlow mostly notices first; a process that was stopped (SIGSTOP) while the others gave up, and goes
    on later, waits in it for ever.

    Args:
        connections: of `meet`.
        place: of this process.
    """

    def __init__(self, connections: list[socket.socket], place: Place):
        self.connections, self.place = connections, place
        self.over = threading.Event()
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self) -> None:
        """What the thread does: nobody sends anything, so a connection that can be read has ended."""
        select.select(self.connections, [], [])
        if not self.over.wait(GRACE_SECONDS):
            print(f"error: {LOST.format(*self.place)}", file=sys.stderr, flush=True)
            os._exit(2)

    def stop(self) -> None:
        """From now on the others may end: nothing more is asked of them."""
        self.over.set()
