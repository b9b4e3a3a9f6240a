# SPDX-License-Identifier: BSD-3-Clause
"""Spindle from Python: a programmable NIC in userspace, attached or embedded in virtual time.

attach()          a NIC of another process, as a Device
World             NICs and links of this process, in virtual time; its NICs are Devices
replay.replay()   packets through a NIC with any handler

A Device has memory(), sdr(), rvma(), rdma() and context(). docs/python.md is the guide."""

from .device import Context, Device, Event, Memory, attach
from .errors import Again, ClosedError, Error, ExportedError, Timeout
from .version import VERSION
from .world import Link, Nic, Port, World

__version__ = VERSION
__all__ = ["Again", "ClosedError", "Context", "Device", "Error", "Event", "ExportedError", "Link", "Memory", "Nic", "Port",
           "Timeout", "World", "attach"]
