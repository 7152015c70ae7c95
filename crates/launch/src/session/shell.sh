__keyward_state=/run/keyward-shell
__keyward_path=$PATH
__keyward_folder=
__keyward_on_exit=
# With an empty environment: one that is too large for a program does not keep these from being run.
__keyward_do() (
    PATH=$__keyward_path
    __keyward_program=$(builtin type -P "$1") && shift && exec -c "$__keyward_program" "$@"
)
__keyward_keep() {
    local __keyward_options=$(builtin set +o; builtin shopt -p) __keyward_new=$__keyward_state.$BASHPID
    [[ $- == *e* ]] && __keyward_options+=$'\nset -e'
    local __keyward_ifs=${IFS-$' \t\n'} __keyward_name
    local IFS=$' \t\n'
    if (
        builtin set +eu
        builtin unset -f __keyward_do __keyward_keep __keyward_end trap
        # What the shell was started with comes back by itself: the gate judges what a line has changed, and not what the policy gives.
        builtin declare -A __keyward_first
        builtin mapfile -d '' -t __keyward_given </proc/self/environ
        for __keyward_name in "${__keyward_given[@]}"; do
            __keyward_first[$__keyward_name]=1
        done
        for __keyward_name in $(builtin compgen -v); do
            case $__keyward_name in
                BASH* | COMP_* | DIRSTACK | EPOCH* | EUID | FUNCNAME | GROUPS | LINENO | IFS | OLDPWD | PIPESTATUS | PPID | PWD | RANDOM | SECONDS | SHELLOPTS | SHLVL | SRANDOM | UID | _ | __keyward_*) continue ;;
            esac
            [[ ${!__keyward_name@a} == *r* ]] && continue
            [[ ${!__keyward_name@a} == x && -n ${__keyward_first[$__keyward_name=${!__keyward_name}]-} ]] && continue
            builtin declare -p "$__keyward_name"
        done
        builtin printf 'IFS=%q\n' "$__keyward_ifs"
        builtin declare -f
        builtin alias -p
        builtin printf '%s\n' "$__keyward_options"
        # What was cut off by a full disk ends without this.
        builtin printf 'cd -- %q\n' "${__keyward_folder:-$PWD}"
    ) 2>/dev/null >|"$__keyward_new" && __keyward_do mv -f -- "$__keyward_new" "$__keyward_state"; then
        return
    fi 2>/dev/null
    builtin printf 'keyward: what this line has changed in the shell was not kept: cannot write %s\nmake room there; the state is as it was before the line\n' "$__keyward_state" >&2
    __keyward_do rm -f -- "$__keyward_new" 2>/dev/null
}
__keyward_end() {
    __keyward_code=$?
    builtin trap - DEBUG ERR RETURN
    __keyward_keep
    if [[ -n $__keyward_on_exit ]]; then
        (builtin exit "$__keyward_code")
        builtin eval "$__keyward_on_exit"
    fi
    builtin exit "$__keyward_code"
}
# A trap on EXIT of the line's own comes after the state is kept, and does not take its place.
trap() {
    builtin trap "$@" || return
    ((BASH_SUBSHELL == 0)) || return 0
    local __keyward_now
    builtin eval "__keyward_now=($(builtin trap -p EXIT))"
    [[ ${__keyward_now[2]-} == __keyward_end ]] && return
    __keyward_on_exit=${__keyward_now[2]-}
    builtin trap __keyward_end EXIT
}
builtin trap __keyward_end EXIT
# The state is the one that was judged, and not the file, which may have changed since. Read as one command, so that no alias of the
# state changes what follows here.
{
    . "/proc/self/fd/$3" 2>/dev/null
    __keyward_given=$3
    exec {__keyward_given}<&-
    if [[ -n $2 ]]; then
        __keyward_folder=$PWD
        builtin cd -- "$2"
    fi
    eval "$1"
}
