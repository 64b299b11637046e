"""`draguard completion bash|zsh|fish`: the script with which a shell completes commands."""

import argparse
import sys
from collections.abc import Sequence

from draguard.exit_status import DONE
from draguard.render.help_text import Example, teaching

EXAMPLES = (
    Example("source <(draguard completion bash)", "bash, now; for later in ~/.bashrc"),
    Example("source <(draguard completion zsh)", "zsh, now; for later in ~/.zshrc"),
    Example("draguard completion fish | source", "fish, now; for later in config.fish"),
)
_BASH = """\
# bash completion of draguard: source <(draguard completion bash)
_draguard() {
    local out line files=1
    COMPREPLY=()
    out=$("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null) || return
    while IFS= read -r line; do
        case $line in
            :4) files=0 ;;
            :*) ;;
            *) COMPREPLY+=("${line%%$'\\t'*}") ;;
        esac
    done <<<"$out"
    if [[ $files == 1 && ${#COMPREPLY[@]} == 0 ]]; then
        compopt -o default 2>/dev/null
    fi
}
complete -F _draguard draguard
"""
_ZSH = """\
#compdef draguard
# zsh completion of draguard: source <(draguard completion zsh)
_draguard() {
    local out line files=1
    local -a found
    out=$(${words[1]} __complete "${(@)words[2,CURRENT]}" 2>/dev/null) || return 1
    for line in "${(@f)out}"; do
        case $line in
            :4) files=0 ;;
            :*|'') ;;
            *$'\\t'*) found+=("${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}") ;;
            *) found+=("${line//:/\\\\:}") ;;
        esac
    done
    if (( $#found )); then
        _describe -V draguard found
    elif (( files )); then
        _files
    fi
}
compdef _draguard draguard
"""
_FISH = """\
# fish completion of draguard: draguard completion fish | source
function __draguard_complete
    set -l words (commandline -opc) (commandline -ct)
    $words[1] __complete $words[2..-1] 2>/dev/null | string match -v -r '^:'
end
complete -c draguard -f -k -a '(__draguard_complete)'
complete -c draguard -l kubeconfig -r -F
complete -c draguard -l policy -r -F
complete -c draguard -n '__fish_seen_subcommand_from check' -F
"""
SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def parser() -> argparse.ArgumentParser:
    taught = teaching(
        "completion",
        "Print the script with which your shell completes commands, flags, and the names of\n"
        "incidents, devices, nodes and contexts.",
        EXAMPLES,
        more="kubectl completes `kubectl draguard` by itself, if kubectl_complete-draguard is in\n"
        "your PATH. It is installed beside draguard.",
    )
    taught.add_argument("shell", choices=[*SCRIPTS])
    return taught


def main(arguments: Sequence[str]) -> int:
    options = parser().parse_args(arguments)
    sys.stdout.write(SCRIPTS[options.shell])
    return DONE
