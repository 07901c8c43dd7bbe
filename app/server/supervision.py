"""Workers end with the process that started them: nobody else would stop them, replace them or give their port back."""

import multiprocessing
import os
import signal
import threading


def end_with_supervisor() -> None:
    """Called in a worker: when its supervisor is gone, however it went, shut down as if it had asked for that."""
    supervisor = multiprocessing.parent_process()
    if supervisor is None:
        return

    def end_after_it() -> None:
        supervisor.join()  # a pipe that the system closes with the supervisor
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end_after_it, name="supervision", daemon=True).start()
