/* SPDX-License-Identifier: BSD-3-Clause */
#include "finding.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../../pipeline/observe/report.h"

void doctor_say(struct doctor *d, enum finding finding, const char *item, const char *advice, const char *format, ...)
{
	static const char *const words[] = {[FINE] = "fine", [ATTENTION] = "attention", [PROBLEM] = "problem"};
	char text[512];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	d->count[finding]++;
	if (d->report) {
		sp_report_open(d->report, NULL, false);
		sp_report_string(d->report, "item", item);
		sp_report_string(d->report, "finding", words[finding]);
		sp_report_string(d->report, "text", text);
		sp_report_string(d->report, "advice", advice);
		sp_report_close(d->report);
		return;
	}
	printf("%-9s  %s: %s\n", words[finding], item, text);
	if (advice)
		printf("           -> %s\n", advice);
}

const char *doctor_file(char *line, int room, const char *format, ...)
{
	char path[512];
	va_list list;

	va_start(list, format);
	vsnprintf(path, sizeof(path), format, list);
	va_end(list);
	FILE *f = fopen(path, "re");
	if (!f || !fgets(line, room, f))
		*line = 0;
	if (f)
		fclose(f);
	line[strcspn(line, "\n")] = 0;
	return line;
}
