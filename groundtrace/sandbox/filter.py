"""The seccomp filter of model-written code: the system calls that Python and its libraries make, and no other.

What is left out fails as if not permitted (EPERM), or as if the kernel lacked it (ENOSYS) where libraries then take
another way. Left out are, among others: all that starts programs, sends signals, opens sockets, traces or reads other
processes, mounts, makes namespaces, loads BPF, and io_uring, userfaultfd, perf, keyrings, System V IPC and queues.
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
    "fdatasync", "flock", "utime", "utimes", "utimensat", "futimesat", "umask", "statfs", "fstatfs",
    "copy_file_range", "sendfile", "splice", "tee", "fadvise64", "sync_file_range", "readahead", "dup", "dup2",
    "dup3", "pipe", "pipe2", "poll", "ppoll", "select", "pselect6", "eventfd", "eventfd2", "epoll_create",
    "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "epoll_pwait2", "munmap", "mprotect",
    "mremap", "madvise", "brk", "msync", "mincore", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn",
    "rt_sigpending", "rt_sigtimedwait", "rt_sigsuspend", "sigaltstack", "restart_syscall", "alarm", "pause",
    "setitimer", "getitimer", "timer_create", "timer_settime", "timer_gettime", "timer_getoverrun", "timer_delete",
    "timerfd_create", "timerfd_settime", "timerfd_gettime", "signalfd", "signalfd4", "nanosleep", "clock_nanosleep",
    "clock_gettime", "clock_getres", "gettimeofday", "time", "times", "fork", "vfork", "wait4", "waitid", "exit",
    "exit_group", "futex", "set_robust_list", "get_robust_list", "set_tid_address", "rseq", "membarrier",
    "sched_yield", "sched_getaffinity", "sched_getparam", "sched_getscheduler", "sched_get_priority_max",
    "sched_get_priority_min", "getpid", "getppid", "gettid", "getuid", "geteuid", "getgid", "getegid", "getresuid",
    "getresgid", "getgroups", "getpgid", "getpgrp", "getsid", "setsid", "setpgid", "getrlimit", "getrusage",
    "getpriority", "uname", "sysinfo", "getrandom", "getcpu", "arch_prctl", "capget", "sendmsg", "recvmsg",
    "sendto", "recvfrom", "shutdown", "getsockopt", "getsockname", "getpeername",
)
# fmt: on
NO_SUCH_CALL = ("clone3", "io_uring_setup", "io_uring_enter", "io_uring_register", "memfd_create", "openat2")
"""Where the C library or Python takes an older way once the kernel seems to lack it."""
_FCNTL = (0, 1, 2, 3, 4, 5, 6, 7, 1030, 1031, 1032, 36, 37, 38)
"""F_DUPFD to F_SETLKW, F_DUPFD_CLOEXEC, the sizes of pipes and locks of open files: no owner of signals, no leases."""
_IOCTL = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX."""
_PRCTL = (15, 16, 3, 23, 39)
"""Names of threads, and questions."""
_NAMESPACES = 0x7E020080
"""CLONE_NEW*: of every kind of namespace."""
_AF_UNIX = 1
_MAP_SHARED_ANONYMOUS = 0x21
"""Memory that forks share: a call that fails would change the state. A file that is mapped is brought back."""


def can_filter() -> str:
    """Why no filter can be made here, "" if it can."""
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
    """The filter as BPF instructions, for this machine's architecture.

    Raises ImportError without pyseccomp, RuntimeError without libseccomp.
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
    rules.add_rule(seccomp.ALLOW, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, _NAMESPACES, 0))
    rules.add_rule(seccomp.ALLOW, "socketpair", seccomp.Arg(0, seccomp.EQ, _AF_UNIX))
    for value in (0, 0x01, 0x20):
        rules.add_rule(seccomp.ALLOW, "mmap", seccomp.Arg(3, seccomp.MASKED_EQ, _MAP_SHARED_ANONYMOUS, value))
    # Limits may be read, of the process itself: its new limit is a null pointer.
    rules.add_rule(seccomp.ALLOW, "prlimit64", seccomp.Arg(0, seccomp.EQ, 0), seccomp.Arg(2, seccomp.EQ, 0))
    with os.fdopen(os.memfd_create("filter"), "w+b") as file:
        rules.export_bpf(file)
        file.seek(0)
        return file.read()


def _is_known(seccomp: Any, name: str) -> bool:
    """Whether libseccomp knows the call on this architecture: arm64 has no ``open``."""
    return seccomp.resolve_syscall(seccomp.Arch.NATIVE, name) >= 0
