"""Provides the Linux system calls that Python's standard library does not provide.

Examples are the calls for seccomp and Landlock, which restrict a process.
"""

import ctypes
import os
import struct

_PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 4, 22, 36, 38
_SECCOMP_MODE_FILTER = 2
_INSTRUCTION_BYTES = 8
_LANDLOCK_CREATE_RULESET, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT_SELF = 444, 445, 446
_VERSION_ONLY, _PATH_BENEATH = 1, 1
_LANDLOCK_READ = 1 << 2 | 1 << 3
"""Landlock's rights to read files and to list folders."""
_LANDLOCK_WRITE_FILE = 1 << 1
_FILE_RIGHTS_BY_ABI = {1: 13, 2: 14, 3: 15, 5: 16}
"""The number of Landlock's rights on files, for each version of its interface that added such rights.

A version between two of these has as many rights as the earlier one, e.g. version 4 has 15.
"""
_libc = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, *arguments: object) -> None:
    if _libc.prctl(option, *arguments, *([ctypes.c_ulong(0)] * (4 - len(arguments)))):
        raise OSError(ctypes.get_errno(), f"prctl {option}")


def adopt_orphans() -> None:
    """Make this process the new parent of each descendant process whose own parent ends (a subreaper)."""
    _prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1))


def hide_memory(is_hidden: bool = True) -> None:
    """Hide this process's memory and its files in /proc from other processes of the same user.

    If ``is_hidden`` is False, the memory and the files become visible again. Processes that this process starts inherit
    the setting. While the files are hidden, the process itself cannot write them either.
    """
    _prctl(_PR_SET_DUMPABLE, ctypes.c_ulong(0 if is_hidden else 1))


def set_filter(program: bytes) -> None:
    """Install a seccomp filter for this thread; the filter allows only some system calls.

    The filter also applies to the threads and processes that this thread starts later. ``program`` is the filter as BPF
    instructions.
    """
    _prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1))
    code = ctypes.create_string_buffer(program, len(program))
    header = ctypes.create_string_buffer(
        struct.pack("HxxxxxxP", len(program) // _INSTRUCTION_BYTES, ctypes.addressof(code))
    )
    _prctl(_PR_SET_SECCOMP, ctypes.c_ulong(_SECCOMP_MODE_FILTER), header)


def landlock_version() -> int:
    """Return the version of this kernel's interface of Landlock; 0 if the kernel has no Landlock.

    Landlock is a Linux security module that restricts the access of processes to files.
    """
    return max(0, _libc.syscall(_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(_VERSION_ONLY)))


def restrict_files(readable: list[str], writable: list[str]) -> int:
    """Restrict this process and its forks with Landlock, a Linux security module: they can access only the given paths.

    From version 4 of Landlock's interface on, they also cannot use TCP ports. From version 6 on, they can send signals
    and connect to abstract sockets only among themselves.

    ``readable`` are the files and folders that may be read, and ``writable`` those that may also be written. Returns
    the version of the interface, or 0 if the kernel has no Landlock. Raises OSError if the kernel refuses the rules.
    """
    version = landlock_version()
    if not version:
        return 0
    rights = (1 << max(count for abi, count in _FILE_RIGHTS_BY_ABI.items() if abi <= version)) - 1
    ports, scopes = 3 if version >= 4 else 0, 3 if version >= 6 else 0
    known = struct.pack("QQQ", rights, ports, scopes)[: 24 if version >= 6 else 16 if version >= 4 else 8]
    rules = _call(_LANDLOCK_CREATE_RULESET, known, ctypes.c_size_t(len(known)), ctypes.c_uint(0))
    try:
        for path, allowed in [*((path, _LANDLOCK_READ) for path in readable), *((path, rights) for path in writable)]:
            _allow(rules, path, allowed)
        _prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1))
        _call(_LANDLOCK_RESTRICT_SELF, ctypes.c_int(rules), ctypes.c_uint(0))
    finally:
        os.close(rules)
    return version


def _allow(rules: int, path: str, rights: int) -> None:
    """Add a rule to a set of Landlock rules: the rule allows ``rights`` on a file, or on a folder and its content.

    ``rules`` is the file descriptor of the set. ``rights`` is a number in which each bit is one right, such as the
    right to read files. For a file, only the rights to read and to write are added, since Landlock does not accept the
    rights of folders for a file.
    """
    handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not os.path.isdir(path):
            rights &= _LANDLOCK_WRITE_FILE | 1 << 2
        rule = struct.pack("=Qi", rights, handle)
        _call(_LANDLOCK_ADD_RULE, ctypes.c_int(rules), ctypes.c_int(_PATH_BENEATH), rule, ctypes.c_uint(0))
    finally:
        os.close(handle)


def _call(number: int, *arguments: object) -> int:
    result = _libc.syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), f"system call {number} failed: {os.strerror(ctypes.get_errno())}")
    return result
