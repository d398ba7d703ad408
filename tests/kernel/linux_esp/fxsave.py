"""Starts User Mode Linux 6.1 where its buffer is too small for the processor's registers (AMX).

 User Mode Linux ── ptrace: all registers? ──► this filter: no ──► it keeps x87 and SSE alone (FXSAVE)

User Mode Linux asks once, and falls back when the host refuses. Then a page fault clears the upper halves of AVX
registers, so nothing inside may use AVX: ENVIRONMENT tells glibc and the crypto libraries.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

ENVIRONMENT = {
    # XSAVE, because the dynamic linker saves AVX registers with it while it looks a symbol up.
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-XSAVE,-XSAVEC,-AVX,-AVX2,-AVX_Fast_Unaligned_Load,-AVX512F,-AVX512VL,-AVX512BW",
    # OpenSSL, BoringSSL and AWS-LC: without OSXSAVE (bit 59), AVX (60), FMA (44) and all of CPUID leaf 7.
    "OPENSSL_ia32cap": "~0x1800100000000000:0",
}
"""For every process inside, from its start."""

# linux/audit.h, linux/seccomp.h, linux/filter.h, linux/prctl.h, linux/ptrace.h; offsets in struct seccomp_data.
_X86_64, _PTRACE = 0xC000003E, 101
_NUMBER, _ARCHITECTURE, _REQUEST = 0, 4, 16
_GETREGSET, _SETREGSET = 0x4204, 0x4205
_ALLOW, _ERROR, _EIO = 0x7FFF0000, 0x00050000, 5
_LOAD, _IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_SET_SECCOMP, _MODE_FILTER, _SET_NO_NEW_PRIVS = 22, 2, 38


class _Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("if_true", ctypes.c_uint8),
        ("if_false", ctypes.c_uint8),
        ("k", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Instruction)))


_FILTER = (
    (_LOAD, 0, 0, _ARCHITECTURE),
    (_IF_EQUAL, 0, 6, _X86_64),
    (_LOAD, 0, 0, _NUMBER),
    (_IF_EQUAL, 0, 4, _PTRACE),
    (_LOAD, 0, 0, _REQUEST),
    (_IF_EQUAL, 1, 0, _GETREGSET),
    (_IF_EQUAL, 0, 1, _SETREGSET),
    (_RETURN, 0, 0, _ERROR | _EIO),
    (_RETURN, 0, 0, _ALLOW),
)


def is_needed() -> bool:
    return " amx_tile" in Path("/proc/cpuinfo").read_text()


def main(command: list[str]) -> None:
    """Becomes `command`, with the filter. Raises OSError."""
    instructions = (_Instruction * len(_FILTER))(*(_Instruction(*one) for one in _FILTER))
    program = _Program(len(_FILTER), instructions)
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in (
        (_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        (_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program), 0, 0),
    ):
        if libc.prctl(*arguments) != 0:
            raise OSError(ctypes.get_errno(), "cannot filter system calls")
    os.execvp(command[0], command)  # noqa: S606


if __name__ == "__main__":
    main(sys.argv[1:])
