# SPDX-License-Identifier: BSD-3-Clause
"""Figures: their table as CSV, their plots by gnuplot, as SVG, PNG and PDF. What tells series apart does so without colours, too."""

import csv
import io
import math
import os
import subprocess
import textwrap

COLOURS = {"sr-rto": "#c0392b", "sr-nack": "#e08e0b", "ec-mds": "#1f5fa8", "ec-xor": "#2e8b57"}
OTHERS = ("#1f5fa8", "#c0392b", "#2e8b57", "#e08e0b", "#7d3c98", "#555555", "#16a0b0", "#a0522d")
# Of gnuplot, by colour: a point that is measured has the shape of its series also where a line of that colour is the model.
SHAPES, PATTERNS = (7, 5, 9, 13, 11, 6, 4, 8), (3, 1, 2, 4, 5, 6, 7)
WIDTH, WIDE, HEIGHT = 400, 560, 360  # of a panel, pixels; of a map


def shape(colour):
    """The point of a colour."""
    known = list(dict.fromkeys([*COLOURS.values(), *OTHERS]))
    return SHAPES[known.index(colour) % len(SHAPES)] if colour in known else SHAPES[0]


class Series:
    """A series of a panel: points (x, y) or (x, y, error). kind: line, dashes or points. Without a name it is not in the key."""

    def __init__(self, name, points, kind="line", colour=None):
        self.name, self.points, self.kind, self.colour = name, points, kind, colour


class Panel:
    """names: of x that are not numbers, in order. grid: [(column, row, value)] by names and rows, instead of series.
    marks: [(label, x)] on the axis."""

    def __init__(self, title, x, y, series=(), log="", names=None, rows=None, grid=None, least=None, bars=False, marks=None):
        self.title, self.x, self.y, self.series, self.log = title, x, y, list(series), log
        self.names, self.rows, self.grid, self.least, self.bars, self.marks = names, rows, grid, least, bars, marks


class Figure:
    def __init__(self, name, title, shows, panels=(), rows=(), claims=(), notes=(), across=None, table=None):
        """shows: the content of the paper's figure. rows: dicts, the table. claims: (what, paper, model, packets or measured).
        notes: seed, samples, what a loss is. across: panels side by side. table: Markdown."""
        self.name, self.title, self.shows, self.panels, self.rows = name, title, shows, list(panels), list(rows)
        self.claims, self.notes, self.across, self.table = list(claims), list(notes), across or max(len(self.panels), 1), table


def write_csv(figure, folder):
    columns = list(dict.fromkeys(name for row in figure.rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {k: "" if v is None else ",".join(map(str, v)) if isinstance(v, list) else v for k, v in row.items()}
        for row in figure.rows
    )
    with open(os.path.join(folder, figure.name + ".csv"), "w") as f:
        f.write(text.getvalue())


def quote(text):
    return "'%s'" % str(text).replace("'", "''")


def number(value):
    return "NaN" if value is None or math.isnan(value) else "%.9g" % value


def block(name, rows):
    return "$%s << EOD\n%s\nEOD\n" % (name, "\n".join(" ".join(number(v) for v in row) for row in rows) or "NaN NaN NaN")


def tics(axis, names):
    return "set %stics (%s)%s\n" % (
        axis,
        ", ".join("%s %d" % (quote(n), i) for i, n in enumerate(names)),
        " rotate by -45" if axis == "x" and sum(map(len, names)) > 26 else "",
    )


def grid_script(panel, at):
    cells = [(panel.names.index(c), panel.rows.index(r), v) for c, r, v in panel.grid]
    text = "$d%d << EOD\n%s\nEOD\n" % (at, "\n".join(" ".join(number(v) for v in cell) for cell in cells))
    text += tics("x", panel.names) + tics("y", panel.rows)
    text += "set xrange [-0.5:%g]\nset yrange [-0.5:%g]\nunset key\nset logscale cb\nset cbrange [0.25:16]\n" % (
        len(panel.names) - 0.5,
        len(panel.rows) - 0.5,
    )
    text += "set palette defined (-2 '#4575b4', 0 '#ffffff', 2 '#fdae61', 4 '#d73027')\nset cbtics (0.25, 0.5, 1, 2, 4, 8, 16)\n"
    text += "unset grid\n"
    return (
        text
        + "plot $d%d using 1:2:3 with image notitle, '' using 1:2:(sprintf('%%.1f', $3)) with labels font ',8' notitle\n" % at
    )


def series_script(panel, at):
    text, plots, others = "", [], 0
    measured = any(series.kind == "points" for series in panel.series)
    for i, series in enumerate(panel.series):
        name = "d%d_%d" % (at, i)
        points = [(panel.names.index(p[0]) if panel.names else p[0], *p[1:]) for p in series.points]
        colour = series.colour or OTHERS[others % len(OTHERS)]
        others += not series.colour
        text += block(name, [(*p, 0) if len(p) == 2 else p for p in points])
        # Points on a line that has no measured ones: some eight, not each sample.
        point = "pt %d ps 0.7" % shape(colour)
        line = "lines" if measured else "linespoints %s pi %d" % (point, -(-len(points) // 8))
        style = {"line": line + " lw 2", "dashes": line + " lw 2 dt (6,4)", "points": "yerrorbars %s lw 1.5" % point}[series.kind]
        if panel.bars:
            style = "boxerrorbars fs pattern %d border" % PATTERNS[i % len(PATTERNS)]
        using = "1:2:3" if series.kind == "points" else "1:2"
        if panel.bars:
            using = "(%g + $1):2:3" % ((i - (len(panel.series) - 1) / 2) * 0.8 / len(panel.series))
        plots.append(
            "$%s using %s with %s lc rgb %s %s"
            % (name, using, style, quote(colour), "title " + quote(series.name) if series.name else "notitle")
        )
    if panel.names:
        text += tics("x", panel.names) + "set xrange [-0.6:%g]\n" % (len(panel.names) - 0.4)
    text += "set boxwidth %g\n" % (0.8 / max(len(panel.series), 1)) if panel.bars else ""
    text += "".join("set logscale %s\n" % axis for axis in panel.log)
    text += "set xtics (%s)\n" % ", ".join("%s %g" % (quote(label), x) for label, x in panel.marks) if panel.marks else ""
    text += "set format x '10^{%T}'\n" if "x" in panel.log and not panel.names and not panel.marks else ""
    text += "set yrange [%g:*]\n" % panel.least if panel.least is not None else ""
    return text + "plot %s\n" % ", ".join(plots)


def script(figure):
    down, width = -(-len(figure.panels) // figure.across), (WIDE if any(p.grid for p in figure.panels) else WIDTH) * figure.across
    lines = textwrap.wrap("; ".join(figure.notes), width // 7)
    text = "set multiplot layout %d,%d title %s font ',12'\n" % (
        down,
        figure.across,
        '"%s"' % "\\n".join([figure.title] + ["{/*0.75 %s}" % line for line in lines]),
    )
    for at, panel in enumerate(figure.panels):
        text += "reset\nset grid lc rgb '#dddddd'\nset key outside bottom center horizontal font ',9' samplen 2\n"
        text += (
            "set title %s font ',10'\nset xlabel %s.\"\\n\" font ',10' offset 0,0.6\nset ylabel %s font ',10'\nset tics font ',9'\n"
            % (quote(panel.title), quote(panel.x), quote(panel.y))
        )
        text += grid_script(panel, at) if panel.grid else series_script(panel, at)
    return text + "unset multiplot\n", width, HEIGHT * down + 35 + 15 * len(lines)


TERMINALS = {
    "svg": "svg font 'DejaVu Sans,12' background 'white' enhanced size %d,%d",
    "png": "pngcairo font 'DejaVu Sans,10' enhanced size %d,%d",
    "pdf": "pdfcairo font 'DejaVu Sans,10' enhanced size %.3fin,%.3fin",
}


def draw(figure, folder, forms=tuple(TERMINALS)):
    text, width, height = script(figure)
    for form in forms:
        scale = 72 if form == "pdf" else 1
        terminal = TERMINALS[form] % (width / scale, height / scale)
        path = os.path.join(folder, "%s.%s" % (figure.name, form))
        process = subprocess.run(
            ["gnuplot"],
            input="set terminal %s\nset output %s\n%s" % (terminal, quote(path), text),
            stderr=subprocess.PIPE,
            text=True,
        )
        if process.returncode or not os.path.exists(path) or not os.path.getsize(path):
            raise RuntimeError("gnuplot: " + process.stderr)
