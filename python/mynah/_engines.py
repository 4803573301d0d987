"""Where the runs of a sweep are done: threads, executors, a Dask cluster, Ray.

An engine starts a task and calls back when it is over. What became of the run is the task's
result; an error is the engine's, and says nothing of the run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol

from mynah import _native
from mynah._errors import Error, RunError, Unfit, UsageError
from mynah._words import shown
from mynah._work import Call, CallError, Outcome, Task, called, work

if TYPE_CHECKING:
    from mynah._sweep import Sweep

Over = Callable[[int, Callable[[], Outcome]], None]
"""Is told the number of a run that is over, and how to get at what became of it."""


_THREADS_MOST = 1 << 16
"""No machine has as many processors."""


class Lost(Exception):
    """The run was lost with its worker, or with several that the engine itself tried it on."""

    def __init__(self, why: str, workers: int = 1) -> None:
        super().__init__(why)
        self.workers = workers


class Engine(Protocol):
    """Does runs."""

    local: bool
    """Whether they are done in this process."""

    def slots(self) -> int:
        """How many runs go on at a time."""
        ...

    def submit(self, run: int, task: Callable[[], Task], over: Over) -> None:
        """Starts a run."""

    def trouble(self) -> str | None:
        """Why nothing goes on, if so."""

    def close(self) -> None:
        """Ends what still goes on, and waits for nothing."""


class Threads:
    """Threads of this process, as the command has them."""

    local = True

    def __init__(self, threads: int, sweep: Sweep, command: str, call: Call | None) -> None:
        self._threads = threads
        self._sweep = sweep
        self._command = command
        self._call = call
        self._stop = _native.Stop()
        self._pool = ThreadPoolExecutor(threads, "mynah-run")

    def slots(self) -> int:
        return self._threads

    def _work(self, run: int) -> Outcome:
        try:
            if self._call is not None:
                return "value", called(self._call, self._sweep[run])
            measured = self._sweep._made.run(run, self._command, self._stop)
        except Unfit:
            raise
        except Error as error:
            return "failed", error.message
        except CallError as error:
            return "failed", str(error)
        if measured is None:
            raise CancelledError
        return "done", measured.json()

    def submit(self, run: int, task: Callable[[], Task], over: Over) -> None:
        # Nothing needs to be packed.
        future = self._pool.submit(self._work, run)
        future.add_done_callback(lambda done: over(run, done.result))

    def trouble(self) -> str | None:
        return None

    def close(self) -> None:
        self._stop.stop()
        self._pool.shutdown(wait=False, cancel_futures=True)


class Pool:
    """An executor of somebody else, of processes or threads, here or elsewhere."""

    local = False

    def __init__(self, pool: Executor) -> None:
        self._pool = pool
        self._futures: set[Future[Outcome]] = set()

    def slots(self) -> int:
        known = getattr(self._pool, "_max_workers", None)
        return known if isinstance(known, int) and known > 0 else os.cpu_count() or 1

    def submit(self, run: int, task: Callable[[], Task], over: Over) -> None:
        try:
            future = self._pool.submit(work, task())
        except BrokenExecutor as error:
            over(run, _broken(error))
            return
        self._futures.add(future)

        def ended(done: Future[Outcome]) -> None:
            self._futures.discard(done)
            over(run, lambda: _of_pool(done))

        future.add_done_callback(ended)

    def trouble(self) -> str | None:
        return None

    def close(self) -> None:
        for future in list(self._futures):
            future.cancel()


def _of_pool(done: Future[Outcome]) -> Outcome:
    try:
        return done.result()
    except BrokenExecutor as error:
        raise _pool_error(error) from error


def _broken(error: BrokenExecutor) -> Callable[[], Outcome]:
    def raised() -> Outcome:
        raise _pool_error(error) from error

    return raised


def _pool_error(error: BrokenExecutor) -> RunError:
    return RunError(
        f"a worker of the executor has died, and with it the executor, so that nobody can say which "
        f"run it was: {error}; with another executor the sweep goes on, without one (threads) or "
        "with Dask one run takes no other with it"
    )


class Dask:
    """A `distributed.Client`."""

    local = False
    LOOK_S = 5.0
    """How often it is asked for its workers."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._futures: dict[int, Any] = {}
        self._slots = (0, float("-inf"))

    def slots(self) -> int:
        known, at = self._slots
        now = time.monotonic()
        if known == 0 or now - at > self.LOOK_S:
            known = sum(self._client.nthreads().values())
            self._slots = (known, now)
        # A run waits for the first worker, and `trouble` says so.
        return max(1, known)

    def submit(self, run: int, task: Callable[[], Task], over: Over) -> None:
        future = self._client.submit(work, task(), pure=False)
        self._futures[run] = future

        def ended(done: Any) -> None:
            over(run, lambda: self._result(run, done))

        future.add_done_callback(ended)

    def _result(self, run: int, done: Any) -> Outcome:
        self._futures.pop(run, None)
        if done.status == "cancelled":
            # Its result was lost, and whoever could make it again as well.
            raise Lost("its worker is gone")
        error = done.exception()
        if error is None:
            outcome: Outcome = done.result()
            return outcome
        if type(error).__name__ == "KilledWorker":
            tried = getattr(error, "allowed_failures", 0)
            raise Lost(f"{tried + 1} workers died of it or beside it", tried + 1)
        raise error

    def trouble(self) -> str | None:
        return None if self._client.nthreads() else "the cluster has no workers, and runs wait for one"

    def close(self) -> None:
        futures = list(self._futures.values())
        if futures:
            self._client.cancel(futures, force=True)
        self._futures.clear()


class Ray:
    """Tasks of Ray, which has no executor."""

    local = False

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        if not ray.is_initialized():
            ray.init()
        # Lost workers are counted here.
        self._remote = ray.remote(work).options(num_cpus=1, max_retries=0)
        self._refs: dict[int, Any] = {}

    def slots(self) -> int:
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def submit(self, run: int, task: Callable[[], Task], over: Over) -> None:
        ref = self._remote.remote(task())
        self._refs[run] = ref

        def ended(done: Future[Outcome]) -> None:
            over(run, lambda: self._result(run, done))

        ref.future().add_done_callback(ended)

    def _result(self, run: int, done: Future[Outcome]) -> Outcome:
        self._refs.pop(run, None)
        try:
            return done.result()
        except self._ray.exceptions.WorkerCrashedError as error:
            raise Lost(str(error).splitlines()[0]) from error

    def trouble(self) -> str | None:
        return None

    def close(self) -> None:
        for ref in self._refs.values():
            self._ray.cancel(ref, force=True)
        self._refs.clear()


def engine(on: object, sweep: Sweep, command: str, call: Call | None) -> Engine:
    """What `on` names."""
    if on is None:
        return Threads(len(os.sched_getaffinity(0)), sweep, command, call)
    if isinstance(on, int) and not isinstance(on, bool):
        if not 1 <= on <= _THREADS_MOST:
            raise UsageError(f"on={shown(on)}: the number of threads is from 1 to {_THREADS_MOST}")
        return Threads(on, sweep, command, call)
    if isinstance(on, Executor):
        return Pool(on)
    if getattr(on, "__name__", None) == "ray" and hasattr(on, "remote"):
        return Ray(on)
    if hasattr(on, "submit") and hasattr(on, "nthreads") and hasattr(on, "scheduler_info"):
        return Dask(on)
    raise UsageError(
        f"on={shown(on)}: a number of threads, a concurrent.futures.Executor, a dask.distributed.Client "
        "or ray belongs here"
    )
