# SPDX-License-Identifier: BSD-3-Clause
# bash's completion for spindle(1). What there is to complete, the command says: `spindle SUBCOMMAND --options` prints a line
# an option.

_spindle_subcommands() {
	"$1" help 2>/dev/null | sed -n 's/^  \([a-z]*\) .*/\1/p'
}

# The words that may come behind a subcommand, by the forms of its help.
_spindle_verbs() {
	"$1" "$2" --help 2>/dev/null | sed -n "s/^.* spindle $2 \([a-z][a-z|]*\) .*/\1/p" | tr '|' '\n' | awk '!seen[$0]++'
}

_spindle() {
	local spindle=${COMP_WORDS[0]} cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} sub=${COMP_WORDS[1]-}
	local verbs verb=() letter name value words all=()

	COMPREPLY=()
	if [ "$COMP_CWORD" = 1 ] || { [ "$COMP_CWORD" = 2 ] && [ "$sub" = help ]; }; then
		mapfile -t COMPREPLY < <(compgen -W "help $(_spindle_subcommands "$spindle")" -- "$cur")
		return
	fi
	verbs=$(_spindle_verbs "$spindle" "$sub")
	if [ "$COMP_CWORD" = 2 ] && [ -n "$verbs" ]; then
		mapfile -t COMPREPLY < <(compgen -W "$verbs" -- "$cur")
		[ "${#COMPREPLY[@]}" = 0 ] || return
	elif grep -qxF -- "${COMP_WORDS[2]}" <<<"$verbs"; then
		verb=("${COMP_WORDS[2]}")
	fi
	while IFS=$'\x1f' read -r letter name value words _; do
		# This option's value: one of its words, or (with none) a file, which is readline's to find.
		if [ -n "$value" ] && { [ "$prev" = "--$name" ] || { [ -n "$letter" ] && [ "$prev" = "-$letter" ]; }; }; then
			[ -z "$words" ] || mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
			return
		fi
		all+=("${name:+--$name}" "${letter:+-$letter}")
	done < <("$spindle" "$sub" "${verb[@]}" --options 2>/dev/null | tr '\t' '\037')
	case $cur in
	-*) mapfile -t COMPREPLY < <(compgen -W "${all[*]}" -- "$cur") ;;
	esac
}

complete -o default -F _spindle spindle
