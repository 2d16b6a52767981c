# bash completion for gpumend

# Completes CMD of `gpumend run` as if it stood alone; false while gpumend's own options are typed.
_gpumend_run_offset()
{
    local i
    for ((i = 2; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        --)
            i=$((i + 1))
            break
            ;;
        --device) i=$((i + 1)) ;;
        -*) ;;
        *) break ;;
        esac
    done
    ((i <= COMP_CWORD)) && [[ ${COMP_WORDS[i]} != -* ]] && declare -F _command_offset >/dev/null &&
        [[ ${COMP_WORDS[COMP_CWORD - 1]} != --device ]] && _command_offset "$i"
}

# The keys of `gpumend kb --with`, and behind "KEY=" its values; "=" is a word of its own.
_gpumend_kb_with()
{
    local gpumend=$1 last=$((COMP_CWORD - 1)) key=
    local cur=${COMP_WORDS[COMP_CWORD]}
    if [[ $cur == = ]]; then
        cur=
        last=$((last + 1))
    fi
    if [[ ${COMP_WORDS[last]} == = && ${COMP_WORDS[last - 2]} == --with ]]; then
        key=${COMP_WORDS[last - 1]}
    elif [[ ${COMP_WORDS[last]} != --with ]]; then
        return 1
    fi
    if [[ $key ]]; then
        mapfile -t COMPREPLY < <(
            compgen -W "$("$gpumend" kb --keys 2>/dev/null | sed -n "s/^$key //p")" -- "$cur")
    else
        compopt -o nospace
        mapfile -t COMPREPLY < <(
            compgen -S = -W "$("$gpumend" kb --keys 2>/dev/null | cut -d ' ' -f 1)" -- "$cur")
    fi
}

_gpumend()
{
    local cur prev command word
    COMPREPLY=()
    cur=${COMP_WORDS[COMP_CWORD]}
    prev=${COMP_WORDS[COMP_CWORD - 1]}
    command=
    if ((COMP_CWORD > 1)); then
        command=${COMP_WORDS[1]}
    fi

    if [[ $command == kb ]] && _gpumend_kb_with "$1"; then
        return
    fi

    # What follows CMD is the command's own.
    if [[ $command == run ]] && _gpumend_run_offset; then
        return
    fi

    case $command:$prev in
    check:--root | export:--root | needs:--root | needs:--kb | variants:--root | variants:--kb | check:--kb | snapshot:--root | snapshot:--kb | snapshot:--tree | fix:--root | fix:--kb | enable:--root | disable:--root | devices:--root | check:--host | container:--root | container:--host | container:--kb | container:--folder | choose:--root | choose:--kb | setup:--root | setup:--kb | setup:--env | setup:--into | setup:--snapshot | probe:--kb | kb:--kb | why:--root | why:--cwd)
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -d -- "$cur")
        return
        ;;
    check:--pid | snapshot:--pid)
        for word in /proc/[0-9]*; do
            [[ ${word#/proc/} == "$cur"* ]] && COMPREPLY+=("${word#/proc/}")
        done
        return
        ;;
    check:--cpu | container:--cpu | snapshot:--cpu | fix:--cpu | why:--cpu)
        mapfile -t COMPREPLY < <(
            compgen -W "x86-64-v1 x86-64-v2 x86-64-v3 x86-64-v4 armv8.0-a armv8.1-a" -- "$cur")
        return
        ;;
    check:--device | container:--device)
        mapfile -t COMPREPLY < <(compgen -W "cpu" -- "$cur")
        return
        ;;
    check:--page-size | container:--page-size | snapshot:--page-size | fix:--page-size | why:--page-size)
        mapfile -t COMPREPLY < <(compgen -W "4096 16384 65536" -- "$cur")
        return
        ;;
    choose:--app)
        mapfile -t COMPREPLY < <(compgen -W "ctranslate2 torch onnxruntime whisperx" -- "$cur")
        return
        ;;
    choose:--model | setup:--model)
        mapfile -t COMPREPLY < <(
            compgen -W "tiny base small medium large-v3 turbo distil-large-v3" -- "$cur")
        return
        ;;
    probe:--stage)
        mapfile -t COMPREPLY < <(
            compgen -W "$("${1:-gpumend}" probe --stages 2>/dev/null)" -- "$cur")
        return
        ;;
    probe:--python)
        mapfile -t COMPREPLY < <(compgen -W "all torch ctranslate2 onnxruntime" -- "$cur")
        return
        ;;
    setup:--script)
        mapfile -t COMPREPLY < <(compgen -W "sh powershell dockerfile" -- "$cur")
        return
        ;;
    choose:--export)
        mapfile -t COMPREPLY < <(compgen -W "sh" -- "$cur")
        return
        ;;
    check:--unset | container:--unset | snapshot:--unset | choose:--unset | probe:--unset | fix:--unset | enable:--unset | why:--unset)
        mapfile -t COMPREPLY < <(compgen -e -- "$cur")
        return
        ;;
    run:--device)
        mapfile -t COMPREPLY < <(compgen -W "auto cuda rocm cpu" -- "$cur")
        return
        ;;
    fleet:--engine)
        mapfile -t COMPREPLY < <(compgen -W "duckdb clickhouse" -- "$cur")
        return
        ;;
    needs:--model)
        mapfile -t COMPREPLY < <(compgen -W "tiny base small medium large-v3 turbo distil-large-v3" -- "$cur")
        return
        ;;
    choose:--compute-type)
        mapfile -t COMPREPLY < <(
            compgen -W "float16 float32 bfloat16 int8 int8_float16 int8_float32 int8_bfloat16" -- "$cur")
        return
        ;;
    needs:--compute)
        mapfile -t COMPREPLY < <(compgen -W "float16 float32 int8_float16 int8_float32" -- "$cur")
        return
        ;;
    needs:--as)
        mapfile -t COMPREPLY < <(compgen -W "nfd cel require-cuda slurm slurm-extra wheel-variant" -- "$cur")
        return
        ;;
    fleet:--names | variants:--env | variants:--unset | needs:--import | needs:--env | needs:--unset | needs:--platform | needs:--features | export:--node | export:--gpus | export:--deadline | export:--expire | export:--heartbeat | export:--drain-limit | check:--import | check:--env | container:--import | container:--env | snapshot:--import | snapshot:--env | snapshot:--glibc | choose:--env | probe:--device | probe:--timeout | probe:--python-timeout | probe:--import | probe:--env | choose:--memory-gib | setup:--for | setup:--into | setup:--python | choose:--compute-type | check:--glibc | fix:--import | fix:--env | fix:--glibc | fix:--select | enable:--import | enable:--env | why:--env | why:--glibc | why:--invert)
        return
        ;;
    esac

    case $command in
    "")
        mapfile -t COMPREPLY < <(compgen -W "check fix enable disable run why explain devices probe choose setup container snapshot needs variants export fleet kb mcp --help --version --licenses" -- "$cur")
        return
        ;;
    check)
        word="--import --pid --root --host --env --unset --glibc --cpu --page-size --device --kb --snapshot --probe --verbose --report --github --sarif --html --redact --watch --json --limit --help"
        ;;
    needs)
        word="--on --as --features --model --compute --import --root --env --unset --kb --platform --no-verify --limit --json --help"
        ;;
    variants)
        word="--preview --on --index --static --root --env --unset --kb --limit --json --help"
        ;;
    fleet)
        word="--names --engine --run --html --limit --json --help"
        ;;
    export)
        word="--root --check --probe --out --node --gpus --deadline --expire --state --heartbeat --drain --drain-count --drain-limit --help"
        ;;
    mcp)
        word="--allow --allow-machine --help"
        ;;
    probe)
        word="--device --stage --stages --timeout --quick --python --python-timeout --import --env --unset --kb --json --help"
        ;;
    snapshot)
        word="--import --pid --root --env --unset --glibc --cpu --page-size --kb --redact --tree --limit --help"
        ;;
    fix)
        word="--import --root --env --unset --glibc --cpu --page-size --kb --select --in-process --apply --packages"
        word+=" --system --undo --list --json --limit --help"
        ;;
    enable)
        word="--import --root --env --unset --json --help"
        ;;
    disable)
        word="--root --json --help"
        ;;
    run)
        word="--print --preload-only --no-preload --keep-env --device --require-gpu --verify --json --trace --trace-gpu --trace-file --restart --forgive-teardown --guard-teardown --no-guard-teardown --help"
        ;;
    why)
        word="--exe --caller --load --env --unset --cwd --root --glibc --cpu --page-size --batch --tree --invert --html --snapshot --json --limit --help"
        ;;
    explain)
        word="--all --follow --here --root --list --kb --json --limit --help"
        ;;
    devices)
        word="--root --probe --json --limit --help"
        ;;
    container)
        word="--root --host --import --env --unset --cpu --page-size --device --kb --gpus --model --platform --no-verify --write --refresh --check --folder --verbose --report --json --limit --help"
        ;;
    choose)
        word="--model --memory-gib --compute-type --app --require-gpu --probe --export --root --env --unset --kb --json --limit --help"
        ;;
    setup)
        word="--for --snapshot --env --into --model --python --script --apply --undo --root --kb --limit --json --help"
        [[ $cur == -* ]] || word="faster-whisper whisperx speaches ctranslate2 torch onnxruntime openai-whisper vllm jax tensorflow cupy bitsandbytes llama-cpp-python"
        ;;
    kb)
        word="arch lint --with --keys --search --forms --kb --json --limit --help"
        ;;
    *)
        return
        ;;
    esac
    if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$word" -- "$cur")
    elif [[ $command == container ]]; then
        mapfile -t COMPREPLY < <(compgen -W "check cdi docker podman compose kubernetes kubernetes-deployment kubernetes-claim quadlet devcontainer apptainer enroot pyxis incus lxc nspawn dockerfile" -- "$cur")
    elif [[ $command == fleet ]] && ((COMP_CWORD == 2)); then
        mapfile -t COMPREPLY < <(compgen -W "report add query" -- "$cur")
    elif [[ $command == export ]]; then
        mapfile -t COMPREPLY < <(compgen -W "prometheus nfd npd slurm slurm-features slurm-extra ndjson" -- "$cur")
    elif [[ $command == explain ]]; then
        mapfile -t COMPREPLY < <(
            compgen -W "$("$1" explain --list 2>/dev/null | cut -d ' ' -f 1)" -- "$cur")
        if ((${#COMPREPLY[@]} == 0)); then
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        fi
    elif [[ $command != devices && $command != kb ]]; then
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    fi
}

complete -F _gpumend gpumend
