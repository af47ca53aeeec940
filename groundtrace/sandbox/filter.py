"""Builds the seccomp filter for model-written code, which allows only system calls that Python and its libraries need.

All other system calls fail with EPERM (not permitted), with two exceptions. A few calls fail with ENOSYS (the kernel
lacks this call), because a library that gets ENOSYS uses an older call. The calls that lock files report success, but
have no effect. For example, the following calls are forbidden:

- calls that start programs, send signals or open sockets;
- calls that trace other processes or read their memory;
- calls that mount file systems, create namespaces or load BPF programs;
- the calls of io_uring, userfaultfd, perf, keyrings, System V IPC and message queues.
"""

import errno
import os
from functools import cache
from typing import Any

# fmt: off
ALLOWED = (
    "read", "write", "readv", "writev", "pread64", "pwrite64", "preadv", "pwritev", "preadv2", "pwritev2", "lseek",
    "close", "close_range", "open", "openat", "openat2", "creat", "stat", "fstat", "lstat", "newfstatat", "statx",
    "access", "faccessat", "faccessat2", "readlink", "readlinkat", "getdents", "getdents64", "getcwd", "chdir",
    "fchdir", "mkdir", "mkdirat", "rmdir", "unlink", "unlinkat", "rename", "renameat", "renameat2", "link",
    "linkat", "symlink", "symlinkat", "chmod", "fchmod", "fchmodat", "truncate", "ftruncate", "fallocate", "fsync",
    "fdatasync", "utime", "utimes", "utimensat", "futimesat", "umask", "statfs", "fstatfs",
    "copy_file_range", "sendfile", "splice", "tee", "fadvise64", "sync_file_range", "readahead", "dup", "dup2",
    "dup3", "pipe", "pipe2", "poll", "ppoll", "select", "pselect6", "eventfd", "eventfd2", "epoll_create",
    "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "epoll_pwait2", "munmap", "mprotect",
    "mremap", "madvise", "brk", "msync", "mincore", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn",
    "rt_sigpending", "rt_sigtimedwait", "rt_sigsuspend", "sigaltstack", "restart_syscall", "alarm", "pause",
    "setitimer", "getitimer", "timerfd_create", "timerfd_settime", "timerfd_gettime", "signalfd", "signalfd4",
    "nanosleep", "clock_nanosleep",
    "clock_gettime", "clock_getres", "gettimeofday", "time", "times", "fork", "wait4", "waitid", "exit",
    "exit_group", "futex", "set_robust_list", "get_robust_list", "set_tid_address", "rseq", "membarrier",
    "sched_yield", "sched_getaffinity", "sched_getparam", "sched_getscheduler", "sched_get_priority_max",
    "sched_get_priority_min", "getpid", "getppid", "gettid", "getuid", "geteuid", "getgid", "getegid", "getresuid",
    "getresgid", "getgroups", "getpgid", "getpgrp", "getsid", "getrlimit", "getrusage",
    "getpriority", "uname", "sysinfo", "getrandom", "getcpu", "arch_prctl", "capget", "sendmsg", "recvmsg",
    "sendto", "recvfrom", "shutdown", "getsockopt", "getsockname", "getpeername",
)
# fmt: on
NO_SUCH_CALL = ("clone3", "io_uring_setup", "io_uring_enter", "io_uring_register", "memfd_create", "openat2")
"""Calls that fail with ENOSYS: the C library or Python then uses an older call instead."""
_FCNTL = (0, 1, 2, 3, 4, 5, 1030, 1031, 1032, 36)
"""Allowed commands of ``fcntl``: F_DUPFD to F_GETLK, F_DUPFD_CLOEXEC, pipe sizes and F_OFD_GETLK. Commands that
set a signal's owner or a lease are not allowed."""
_LOCKS = (6, 7, 37, 38)
"""Commands of ``fcntl`` that lock a file: F_SETLK, F_SETLKW, F_OFD_SETLK, F_OFD_SETLKW. These commands and ``flock``
report success, but have no effect. There are two reasons. The kernel does not count the memory of a lock as memory of
any process. And a lock on a library file would be shared with other trajectories and with this machine.
"""
_IOCTL = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""Allowed requests of ``ioctl``: TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX."""
_PRCTL = (15, 16, 3, 23, 39)
"""Allowed options of ``prctl``: those that set a thread's name or only read a value."""
_NAMESPACES = 0x7E020080
"""The flags CLONE_NEW* of all kinds of namespaces, which ``clone`` may not have."""
_THREAD = 0x10000
_SHARED = 0x1CF00
"""The flags of ``clone`` that only a thread may have: CLONE_VM, CLONE_FS, CLONE_FILES, CLONE_SIGHAND, CLONE_VFORK,
CLONE_PARENT and CLONE_THREAD. With them, a new process could change the state of the holder (the process that holds the
variables of the executed code) even if the execution fails.
"""
_EXIT_SIGNAL, _SIGCHLD = 0xFF, 17
"""The bits of the flags of ``clone`` that hold the exit signal, and the only exit signal that is allowed: SIGCHLD.

A parent gets the exit signal when its child process ends. SIGCONT as exit signal would wake a stopped holder (the
process that holds the trajectory's state). Two more things could send SIGCONT to a holder, and are also forbidden:

- A timer that sends a chosen signal (``timer_create``).
- A new process group (``setpgid``, ``setsid``). A group is orphaned if no member has a parent in another group of the
  same session. When a group becomes orphaned, the kernel may send SIGCONT to its members. Without new groups, all
  processes of a trajectory's code stay in one group, that of the first holder.
"""
_AF_UNIX = 1
_MAP_SHARED_ANONYMOUS = 0x21
"""The flags of ``mmap`` for memory that a process shares with its forks. Such memory is not allowed: an execution of
code that fails could change the trajectory's state in it. A shared mapping of a file is allowed, because the files are
restored after a failed execution.
"""


def can_filter() -> str:
    """Return the reason why this machine cannot build a seccomp filter; "" if it can build one."""
    try:
        _seccomp()
    except (ImportError, OSError, RuntimeError) as error:
        return str(error)
    return ""


def _seccomp() -> Any:
    import pyseccomp

    return pyseccomp


@cache
def filter_program() -> bytes:
    """Return the seccomp filter as BPF instructions (bytes) for this machine's architecture.

    Raises ImportError if the package pyseccomp is not installed, and RuntimeError if the library libseccomp is not.
    """
    seccomp = _seccomp()
    rules = seccomp.SyscallFilter(seccomp.ERRNO(errno.EPERM))
    for name in ALLOWED:
        if name not in NO_SUCH_CALL and _is_known(seccomp, name):
            rules.add_rule(seccomp.ALLOW, name)
    for name in NO_SUCH_CALL:
        if _is_known(seccomp, name):
            rules.add_rule(seccomp.ERRNO(errno.ENOSYS), name)
    for name, values in (("fcntl", _FCNTL), ("ioctl", _IOCTL)):
        for value in values:
            rules.add_rule(seccomp.ALLOW, name, seccomp.Arg(1, seccomp.MASKED_EQ, 0xFFFFFFFF, value))
    for value in _PRCTL:
        rules.add_rule(seccomp.ALLOW, "prctl", seccomp.Arg(0, seccomp.MASKED_EQ, 0xFFFFFFFF, value))
    for value in _LOCKS:
        rules.add_rule(seccomp.ERRNO(0), "fcntl", seccomp.Arg(1, seccomp.MASKED_EQ, 0xFFFFFFFF, value))
    rules.add_rule(seccomp.ERRNO(0), "flock")
    for flags in (_SHARED | _EXIT_SIGNAL, _SIGCHLD), (_THREAD, _THREAD):
        rules.add_rule(seccomp.ALLOW, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, _NAMESPACES | flags[0], flags[1]))
    rules.add_rule(seccomp.ALLOW, "socketpair", seccomp.Arg(0, seccomp.EQ, _AF_UNIX))
    for value in (0, 0x01, 0x20):
        rules.add_rule(seccomp.ALLOW, "mmap", seccomp.Arg(3, seccomp.MASKED_EQ, _MAP_SHARED_ANONYMOUS, value))
    # A process may only read its own limits: the pointer to a new limit must be null.
    rules.add_rule(seccomp.ALLOW, "prlimit64", seccomp.Arg(0, seccomp.EQ, 0), seccomp.Arg(2, seccomp.EQ, 0))
    with os.fdopen(os.memfd_create("filter"), "w+b") as file:
        rules.export_bpf(file)
        file.seek(0)
        return file.read()


def _is_known(seccomp: Any, name: str) -> bool:
    """Return whether this architecture has the system call ``name``, according to the library libseccomp.

    For example, arm64 does not have ``open``.
    """
    return seccomp.resolve_syscall(seccomp.Arch.NATIVE, name) >= 0
