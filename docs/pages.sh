#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# pages.sh SOURCE BUILD: the manual as `man -M BUILD/man` reads it, of the pages in SOURCE/man and the other names that
# these have. Prints a line for each page, `page SECTION FILE`, and for each other name, `name SECTION FILE PAGE`.
set -eu
source=$1/man build=$2/man

rm -rf "$build"
for section in 1 2 3 4 5 6 7 8; do
	for page in "$source"/*."$section"; do
		[ -e "$page" ] || continue
		mkdir -p "$build/man$section"
		ln -s "$page" "$build/man$section/"
		file=${page##*/}
		echo "page $section $file"
		for name in $(sed -n '/^\.Sh NAME/,/^\.Nd/s/^\.Nm \([^ ]*\).*/\1/p' "$page"); do
			[ "$name.$section" != "$file" ] || continue
			ln -s "$file" "$build/man$section/$name.$section"
			echo "name $section $name.$section $file"
		done
	done
done
