# SPDX-License-Identifier: BSD-3-Clause
"""The page: each figure with our values beside the paper's, as Markdown."""

import os

INTRODUCTION = """# The figures of the SDR and RVMA papers, from Spindle

*SDR-RDMA: Software-Defined Reliability Architecture for Planetary Scale RDMA Communication*, arXiv 2505.05366. Figures 1, 2
and 4 to 8 of the paper are drawings of the architecture and a measurement of a real network. Values of the paper are
taken from its text, captions and tables, not from its curves.

*Model* is the paper's stochastic model as `spindle sim sdr --model` computes it: lines in the plots. *Packets* is `spindle sim
sdr`, and in figure 13 `spindle sim allreduce`, where NICs and host programs send and receive every packet in virtual time:
dots, with a standard error where there is one.
Decoding takes no time in the model. A 99.9 % quantile of fewer than 1000 samples is not shown.

The paper calls P the drop probability of a packet in its figures and of a chunk in its model. Figures are drawn both for
chunks of 64 KiB that are lost whole with probability P, and for chunks of one packet of 4 KiB, for which the two are the same;
the axes and words of the paper's figure 3 fit the latter.

Figures rvma4 to rvma6 are figures 4 to 6 of *RVMA: Remote Virtual Memory Access* (Grant, Levenhagen, Dosanjh, Widener), whose
curves were measured on Omni-Path and ConnectX-5 NICs with RVMA's part computed from parts of RDMA's; here both run. Figures
rvma7 and rvma8 are its figures 7 and 8, simulations with SST: here `spindle sim motif` simulates the network packet by packet, and
models the NICs.
"""


def table(rows):
    """rows[0] is the heading."""
    lines = ["| %s |" % " | ".join(str(cell) for cell in row) for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def section(figure):
    parts = ["## %s" % figure.title, figure.shows]
    if figure.panels:
        parts.append("![%s](%s.png)" % (figure.title, figure.name))
    if figure.claims:
        measured = figure.name in ("fig14", "fig15", "fig16", "rvma4", "rvma5", "rvma6", "rvma7", "rvma8")
        heading = ("", "paper", "here") if measured else ("", "paper", "model", "packets")
        parts.append(table([heading, *(["-" if cell is None else cell for cell in claim] for claim in figure.claims)]))
    if figure.table:
        parts.append(table(figure.table))
    links = ["[table](%s.csv)" % figure.name] + (["[%s](%s.%s)" % (form.upper(), figure.name, form) for form in ("svg", "pdf")] if figure.panels else [])
    parts.append("%s. %s" % ("; ".join(figure.notes), ", ".join(links)))
    return "\n\n".join(parts)


def write(figures, folder, how):
    with open(os.path.join(folder, "figures.md"), "w") as f:
        f.write("\n\n".join([INTRODUCTION.rstrip(), "Made by `%s`." % how, *(section(figure) for figure in figures)]) + "\n")
