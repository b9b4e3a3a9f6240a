# SPDX-License-Identifier: BSD-3-Clause
"""What goes wrong, as exceptions: each is an OSError with the library's errno and a text."""

import errno as _errno
import os
from typing import Dict, Type


class Error(OSError):
    """A call of the library has failed: `errno` and `strerror` as of any OSError.

    The text names the call, and where the library says so, the setting that was wrong."""


class Again(Error, BlockingIOError):
    """EAGAIN: not now. The call had no effect; try again after some progress."""


class Timeout(Error, TimeoutError):
    """ETIMEDOUT: what was waited for did not happen in time."""


class ClosedError(Error, ValueError):
    """EBADF: the object, or what it was made with, is closed."""


class ExportedError(Error, BufferError):
    """EBUSY: views (memoryviews, arrays) of memory exist that would be freed. Release them first."""


_CLASSES: Dict[int, Type[Error]] = {_errno.EAGAIN: Again, _errno.ETIMEDOUT: Timeout, _errno.EBADF: ClosedError}


def error(number: int, text: str = "") -> Error:
    """The exception for this errno (positive). text: what was wrong, in words."""
    words = os.strerror(number)
    return _CLASSES.get(number, Error)(number, "%s: %s" % (text, words) if text else words)
