# SPDX-License-Identifier: Apache-2.0
"""libquark for Python: what the processes of a Linux system do.

    with quark.Queue() as queue:
        for event in queue:
            print(event.kinds, event.process)

An Event is a copy, and may be kept. A member is None while it is not known; what is in cached is of
an earlier time, and may not be true any more; of what is in truncated the end is missing. quark(7) has what
the members mean. A queue is for one thread at a time, except for close() and stats(), and not for a child
of os.fork() or of multiprocessing with the method "fork": use "spawn" there. One that nobody closes is
closed when nobody has it any more, or at the exit.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import errno
import os
import threading
import weakref
from ctypes import POINTER, c_char, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Callable, Iterator, Optional, Type, TypeVar, Union

BACKENDS = {"ebpf": 1 << 2, "kprobe": 1 << 1, "cnproc": 1 << 16, "audit": 1 << 20}
THREAD_EVENTS, MIN_AGG, STRICT, FAILED_EXECS = 1 << 0, 1 << 3, 1 << 24, 1 << 25

KINDS = {1 << 0: "FORK", 1 << 1: "EXEC", 1 << 2: "EXIT", 1 << 3: "ID_CHANGE", 1 << 4: "SETPROCTITLE",
         1 << 10: "PTRACE", 1 << 15: "CORE_DUMP", 1 << 16: "GAP", 1 << 17: "GONE", 1 << 18: "EXEC_FAILED"}

# The bits of fields_known and the like.
FIELDS = {name: 1 << number for number, name in enumerate(
    "start ppid pgid sid uids suid gids sgid caps tty uts_ns ipc_ns mnt_ns net_ns comm exe args cwd cgroup "
    "exit parent_signal birth_parent_tid login exe_file exec_path pid_ns user_ns cgroup_ns time_ns cpu_time peak_rss io "
    "environ".split())} | {"entry_leader": 1 << 62, "privileges": 1 << 63}


class CAttr(ctypes.Structure):
    _fields_ = [("flags", c_int), ("max_length", c_int), ("cache_grace_time", c_int), ("hold_time", c_int),
                ("filter", c_char_p), ("environ", c_char_p), ("replay", c_char_p), ("reserved", c_uint64 * 9)]


class CQueue(ctypes.Structure):
    _fields_ = [("state", c_void_p), ("lock", c_uint32), ("pad", c_uint32), ("reserved", c_uint64 * 6)]


class CStats(ctypes.Structure):
    _fields_ = ([(name, c_uint64) for name in "insertions removals aggregations non_aggregations lost".split()] +
                [("backend", c_int), ("pad", c_int)] +
                [(name, c_uint64) for name in "garbage_collections late filtered unsure buffered processes produced".split()] +
                [("lost_by", c_uint64 * 16), ("reserved", c_uint64 * 16)])


class CProcess(ctypes.Structure):
    _fields_ = ([("pid", c_uint32), ("flags", c_uint64)] +
                [(f"proc_cap_{name}", c_uint64) for name in "inheritable permitted effective bset ambient".split()] +
                [("proc_time_boot", c_uint64)] +
                [(f"proc_{name}", c_uint32) for name in (
                    "ppid uid gid suid sgid euid egid pgid sid tty_major tty_minor entry_leader_type entry_leader "
                    "uts_inonum ipc_inonum mnt_inonum net_inonum").split()] +
                [("exit_code", c_int32), ("exit_time_event", c_uint64), ("comm", c_char * 16), ("filename", c_char_p),
                 ("cmdline_len", c_size_t), ("cmdline", c_void_p), ("cwd", c_char_p), ("cgroup", c_char_p)] +
                [(name, c_uint64) for name in (
                    "flags_cached flags_truncated fields_known fields_cached fields_truncated as_of start_boottime start_unit "
                    "exit_time").split()] +
                [("wait_status", c_int32)] +
                [(name, c_uint8) for name in "exited inferred privileges exe_removed".split()] +
                [("birth_parent_start", c_uint64), ("birth_parent_pid", c_uint32), ("birth_parent_tid", c_uint32), ("entry_leader_start", c_uint64)] +
                [(name, c_uint32) for name in (
                    "parent_signal ns_pid pid_inonum user_inonum cgroup_inonum time_inonum login_uid login_session").split()] +
                [("exe_inode", c_uint64), ("exe_ctime", c_int64)] +
                [(name, c_uint32) for name in "exe_dev_major exe_dev_minor exe_uid exe_gid exe_mode pad".split()] +
                [(name, c_uint64) for name in "user_time system_time peak_rss rchar wchar read_bytes write_bytes".split()] +
                [("exec_path", c_char_p), ("environ_len", c_size_t), ("environ", c_void_p)])


class CPart(ctypes.Structure):
    _fields_ = ([("time", c_uint64)] +
                [(name, c_uint32) for name in "event id_change cpu uid euid suid gid egid sgid pad".split()] +
                [("fields_known", c_uint64), ("fields_cached", c_uint64)])


class CEvent(ctypes.Structure):
    _fields_ = ([("events", c_uint64), ("process", POINTER(CProcess)), ("time", c_uint64), ("time_monotonic", c_uint64)] +
                [(name, c_uint32) for name in "id_change cpu tid thread tracer_pid tracer_tid exec_failed_errno".split()] +
                [("exec_failed_path_cached", c_uint8), ("exec_failed_path_truncated", c_uint8), ("pad", c_uint8 * 2),
                 ("exec_failed_path", c_char_p)] +
                [(name, c_uint64) for name in "gap_from gap_to gap_count".split()] +
                [("gap_cause", c_uint32), ("gap_cpu", c_uint32), ("nparts", c_size_t), ("parts", POINTER(CPart)),
                 ("queue", POINTER(CQueue)), ("serial", c_uint64)])


class CProcessIter(ctypes.Structure):
    _fields_ = [("queue", POINTER(CQueue)), ("processes", POINTER(CProcess)), ("count", c_uint64), ("next", c_uint64),
                ("serial", c_uint64), ("reserved", c_uint64 * 3)]


def _load() -> ctypes.CDLL:
    lib = ctypes.CDLL(os.environ.get("LIBQUARK", "libquark.so.0"), use_errno=True)
    queue, event = POINTER(CQueue), POINTER(CEvent)
    for name, result, arguments in [
            ("quark_queue_default_attr", None, [POINTER(CAttr)]),
            ("quark_queue_open", c_int, [queue, POINTER(CAttr)]),
            ("quark_queue_close", None, [queue]),
            ("quark_queue_backend", c_char_p, [queue]),
            ("quark_queue_get_event", event, [queue]),
            ("quark_queue_block", c_int, [queue]),
            ("quark_queue_wake", c_int, [queue]),
            ("quark_queue_get_epollfd", c_int, [queue]),
            ("quark_queue_get_stats", c_int, [queue, POINTER(CStats)]),
            ("quark_process_lookup", POINTER(CProcess), [queue, c_int]),
            ("quark_process_iter_init", None, [POINTER(CProcessIter), queue]),
            ("quark_process_iter_next", POINTER(CProcess), [POINTER(CProcessIter)]),
            ("quark_event_json", c_char_p, [event]),
            ("quark_last_error", c_char_p, [])]:
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


_lib = _load()


class Error(OSError):
    """What a function of libquark says of its failure, with its errno."""


def _error() -> Error:
    return Error(ctypes.get_errno(), os.fsdecode(_lib.quark_last_error()))


def _names(bits: int) -> frozenset[str]:
    return frozenset(name for name, bit in FIELDS.items() if bits & bit)


def _strings(address: Optional[int], length: int) -> list[bytes]:
    """The strings of a blob, each with a NUL at its end; the last one may be cut."""
    blob = ctypes.string_at(address, length) if address else b""
    return blob.removesuffix(b"\0").split(b"\0") if blob else []


@dataclass(frozen=True)
class Process:
    """What is known of a process. A member is None while it is not known."""
    pid: int
    known: frozenset[str]
    cached: frozenset[str]
    truncated: frozenset[str]
    start_time: Optional[int]  # ns since 1970
    ppid: Optional[int]
    pgid: Optional[int]
    sid: Optional[int]
    uid: Optional[int]
    euid: Optional[int]
    suid: Optional[int]
    gid: Optional[int]
    egid: Optional[int]
    sgid: Optional[int]
    cap_effective: Optional[int]
    comm: Optional[str]
    exe: Optional[str]
    args: Optional[tuple[str, ...]]
    environ: Optional[dict[str, str]]
    cwd: Optional[str]
    cgroup: Optional[str]
    wait_status: Optional[int]  # as os.waitstatus_to_exitcode() takes it
    exited: bool

    @classmethod
    def _of(cls, c: CProcess) -> Process:
        def get(field: str, member: str) -> Any:
            return getattr(c, member) if c.fields_known & FIELDS[field] else None

        def text(field: str, member: str) -> Optional[str]:
            value = get(field, member)
            return None if value is None else os.fsdecode(value)

        args = environ = None
        if c.fields_known & FIELDS["args"]:
            args = tuple(map(os.fsdecode, _strings(c.cmdline, c.cmdline_len)))
        if c.fields_known & FIELDS["environ"]:
            pairs = (os.fsdecode(v).partition("=") for v in _strings(c.environ, c.environ_len))
            environ = {name: value for name, _, value in pairs}
        return cls(
            pid=c.pid, known=_names(c.fields_known), cached=_names(c.fields_cached), truncated=_names(c.fields_truncated),
            start_time=get("start", "proc_time_boot"), ppid=get("ppid", "proc_ppid"), pgid=get("pgid", "proc_pgid"),
            sid=get("sid", "proc_sid"), uid=get("uids", "proc_uid"), euid=get("uids", "proc_euid"),
            suid=get("suid", "proc_suid"), gid=get("gids", "proc_gid"), egid=get("gids", "proc_egid"),
            sgid=get("sgid", "proc_sgid"), cap_effective=get("caps", "proc_cap_effective"), comm=text("comm", "comm"),
            exe=text("exe", "filename"), args=args, environ=environ, cwd=text("cwd", "cwd"),
            cgroup=text("cgroup", "cgroup"), wait_status=get("exit", "wait_status"), exited=bool(c.exited))


@dataclass(frozen=True)
class Gap:
    """Events that were lost."""
    cause: int
    cpu: Optional[int]  # None: any
    start: int  # CLOCK_MONOTONIC ns
    end: int
    count: int  # at least; 0 is that nobody counted


@dataclass(frozen=True)
class Event:
    """What happened, and the process that it happened to, or the gap."""
    kinds: frozenset[str]
    time: int  # ns since 1970
    process: Optional[Process]
    gap: Optional[Gap]
    exec_failed_path: Optional[str]  # with EXEC_FAILED
    exec_failed_errno: Optional[int]

    @classmethod
    def _of(cls, c: CEvent) -> Event:
        gap = None
        if c.events & 1 << 16:
            cpu = None if c.gap_cpu == 0xffffffff else c.gap_cpu
            gap = Gap(c.gap_cause, cpu, c.gap_from, c.gap_to, c.gap_count)
        path = c.exec_failed_path
        return cls(frozenset(name for bit, name in KINDS.items() if c.events & bit), c.time,
                   Process._of(c.process.contents) if c.process else None, gap,
                   None if path is None else os.fsdecode(path), c.exec_failed_errno or None)


T = TypeVar("T")


def _number(name: str, value: int) -> int:
    """A value as a C int can have it: ctypes would cut it."""
    if not -1 << 31 <= value < 1 << 31:
        raise ValueError(f"{name} is {value}, which is out of range")
    return value


class Queue:
    """The events of this machine, or of a recording. Iterating ends with the recording."""

    def __init__(self, backend: Optional[str] = None, flags: int = 0, hold_time: Optional[float] = None,
                 filter: Optional[str] = None, environ: Optional[str] = None,
                 replay: Union[str, os.PathLike[str], None] = None) -> None:
        self._queue = CQueue()
        self._lock, self._depth = threading.RLock(), 0
        self._pid, self._closed = os.getpid(), False
        attr = CAttr()
        _lib.quark_queue_default_attr(attr)
        if backend is not None:
            if backend not in BACKENDS:
                raise ValueError(f"no backend is called {backend!r}: choose one of {', '.join(BACKENDS)}")
            attr.flags = BACKENDS[backend]
        attr.flags |= _number("flags", flags)
        if hold_time is not None:  # 0 would be the default
            attr.hold_time = _number("hold_time", round(hold_time * 1000) or 1)
        for name, value in ("filter", filter), ("environ", environ), ("replay", replay):
            if value is not None:
                text = os.fsencode(value)
                if b"\0" in text:
                    raise ValueError(f"{name} has a NUL in it")
                setattr(attr, name, text)
        if _lib.quark_queue_open(self._queue, attr) != 0:
            raise _error()
        weakref.finalize(self, _lib.quark_queue_close, self._queue).atexit = False
        _open.add(self)

    def close(self) -> None:
        """Ends the queue, and an iteration that waits in another thread."""
        self._closed = True
        if os.getpid() == self._pid:
            with self._lock:
                self._end()

    def _end(self) -> None:
        if self._closed and self._depth == 0:
            _lib.quark_queue_close(self._queue)

    @contextlib.contextmanager
    def _copying(self) -> Iterator[None]:
        """Has what C hands out stay until it is copied: a close() of another thread, or of the handler of a signal,
        would free it."""
        if os.getpid() != self._pid:  # where the lock may be that of a thread which is not there
            raise Error(errno.ECHILD, "this process was forked: open a queue in one that was spawned")
        with self._lock:
            depth = self._depth
            try:
                self._depth = depth + 1
                if self._closed:
                    raise Error(errno.EBADF, "the queue is closed")
                yield
            finally:
                self._depth = depth
                self._end()

    def __enter__(self) -> Queue:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 where: Optional[TracebackType]) -> None:
        self.close()

    def _take(self, of: Callable[[CEvent], T]) -> Optional[T]:
        """What the next event is by a function, or None with its errno while there is none."""
        with self._copying():
            event = _lib.quark_queue_get_event(self._queue)
            if event:
                return of(event.contents)
            if ctypes.get_errno() not in (errno.EAGAIN, errno.ENODATA):
                raise _error()
            return None

    def _events(self, of: Callable[[CEvent], T]) -> Iterator[T]:
        while True:
            event = self._take(of)
            if event is not None:
                yield event
            elif ctypes.get_errno() == errno.ENODATA:
                return
            # It returns after 100 ms, so that Python sees signals such as ^C.
            elif _lib.quark_queue_block(self._queue) != 0:
                raise _error()

    def c_events(self) -> Iterator[CEvent]:
        """The events as C has them: each is valid until the next, and until close()."""
        return self._events(lambda event: event)

    def __iter__(self) -> Iterator[Event]:
        return self._events(Event._of)

    def get(self) -> Optional[Event]:
        """The next event, or None while there is none. It never waits: fileno() does, in a loop of the caller's."""
        return self._take(Event._of)

    def fileno(self) -> int:
        """For select and selectors: readable when get() is to be called, until that returns None."""
        fd = int(_lib.quark_queue_get_epollfd(self._queue))
        if fd < 0:
            raise _error()
        return fd

    def lookup(self, pid: int) -> Optional[Process]:
        """The process that has a pid, or had it last, or None if none is known."""
        if not 0 <= pid < 1 << 31:
            return None
        with self._copying():
            process = _lib.quark_process_lookup(self._queue, pid)
            if process:
                return Process._of(process.contents)
            if ctypes.get_errno() != errno.ESRCH:
                raise _error()
            return None

    def processes(self) -> list[Process]:
        """All processes that are known, by pid."""
        iterator, found = CProcessIter(), []
        with self._copying():
            _lib.quark_process_iter_init(iterator, self._queue)
            while process := _lib.quark_process_iter_next(iterator):
                found.append(Process._of(process.contents))
            if ctypes.get_errno():
                raise _error()
        return found

    def stats(self) -> dict[str, int]:
        stats = CStats()
        if _lib.quark_queue_get_stats(self._queue, stats) != 0:
            raise _error()
        return {name: getattr(stats, name) for name, kind, *_ in stats._fields_ if kind is c_uint64}

    @property
    def backend(self) -> str:
        with self._copying():
            return os.fsdecode(_lib.quark_queue_backend(self._queue))


_open: weakref.WeakSet[Queue] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for queue in list(_open):
        queue.close()
