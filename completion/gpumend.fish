# fish completion for gpumend. Commands, options and what options take are read from the help of the
# installed executable, so they are never those of another version.

function __gpumend_commands
    gpumend --help 2>/dev/null | string replace -rf '^  ([a-z]+)  +(.*)' '$1\t$2'
    printf '%s\n' --help --version --licenses
end

# The keys of `gpumend kb --with`, and behind "KEY=" its values.
function __gpumend_kb_with
    set -l key (string replace -rf '^([^=]+)=.*' '$1' -- (commandline -ct))
    for row in (gpumend kb --keys 2>/dev/null)
        set -l words (string split ' ' -- $row)
        if test -z "$key"
            echo "$words[1]="
        else if test "$words[1]" = "$key"; and test (count $words) -gt 1
            printf "$key=%s\n" $words[2..-1]
        end
    end
end

# The values of COMMAND:OPTION; false: it has none of its own.
function __gpumend_values -a key
    switch $key
        case '*:--cpu'
            printf '%s\n' x86-64-v1 x86-64-v2 x86-64-v3 x86-64-v4 armv8.0-a armv8.1-a
        case '*:--page-size'
            printf '%s\n' 4096 16384 65536
        case choose:--app
            printf '%s\n' ctranslate2 torch onnxruntime whisperx
        case choose:--model needs:--model
            printf '%s\n' tiny base small medium large-v3 turbo distil-large-v3
        case choose:--export
            echo sh
        case probe:--stage
            gpumend probe --stages 2>/dev/null
        case probe:--python
            printf '%s\n' all torch ctranslate2 onnxruntime
        case check:--device container:--device
            echo cpu
        case run:--device
            printf '%s\n' auto cuda rocm cpu
        case needs:--as
            printf '%s\n' nfd cel require-cuda slurm slurm-extra wheel-variant
        case choose:--compute-type
            printf '%s\n' float16 float32 bfloat16 int8 int8_float16 int8_float32 int8_bfloat16
        case kb:--with
            __gpumend_kb_with
        case needs:--compute
            printf '%s\n' float16 float32 int8_float16 int8_float32
        case '*:--pid'
            __fish_complete_pids
        case '*:--unset'
            set -nx
        case '*'
            return 1
    end
end

function __gpumend_arguments
    set -l words (commandline -opc)
    set -l command $words[2]
    set -l last $words[-1]
    set -l help (gpumend $command --help 2>/dev/null)
    if string match -q -- '--*' $last
        __gpumend_values $command:$last; and return
        switch (string replace -rf -- "^  $last ([A-Z]\S*)  .*" '$1' $help)
            case DIR
                __fish_complete_directories (commandline -ct)
                return
            case FILE TARGET NODE
                __fish_complete_path (commandline -ct)
                return
            case '?*'
                return
        end
    end
    if string match -q -- '-*' (commandline -ct)
        string replace -rf -- '^  (--[a-z-]+)(?: \S+)? +(\S.*)' '$1\t$2' $help
        return
    end
    switch $command
        case run
            test (count $words) = 2; and __fish_complete_command; or __fish_complete_path (commandline -ct)
        case explain
            gpumend explain --list 2>/dev/null | string replace -r ' +' '\t'
            __fish_complete_path (commandline -ct)
        case container
            printf '%s\n' check cdi docker podman compose kubernetes kubernetes-deployment kubernetes-claim \
                quadlet devcontainer apptainer enroot pyxis incus lxc nspawn dockerfile
            test (count $words) -gt 2; and __fish_complete_path (commandline -ct)
        case export
            printf '%s\n' prometheus nfd npd slurm slurm-features slurm-extra ndjson
        case fleet
            test (count $words) = 2; and printf '%s\n' report add; or __fish_complete_path (commandline -ct)
        case devices mcp
        case kb
            test (count $words) = 2; and printf '%s\n' arch lint; or __fish_complete_path (commandline -ct)
        case '*'
            __fish_complete_path (commandline -ct)
    end
end

complete -c gpumend -f
complete -c gpumend -n __fish_use_subcommand -a '(__gpumend_commands)'
complete -c gpumend -n 'not __fish_use_subcommand' -a '(__gpumend_arguments)'
