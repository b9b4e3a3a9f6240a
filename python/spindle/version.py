# SPDX-License-Identifier: BSD-3-Clause
"""The version of the package, which is the project's (meson.build)."""

VERSION = "0.2.0"
