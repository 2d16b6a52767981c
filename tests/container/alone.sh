#!/bin/sh
# The executable runs where nothing else is: tests/container/alone.sh GPUMEND
#
# Makes an image that holds the executable alone and runs it there with podman; where podman
# cannot, in an empty folder as the root of a child (chroot). Skips, by name, where neither works.
set -u
exe=$(realpath "$1") || exit 1
work=$(mktemp -d) || exit 1
image=localhost/gpumend-alone:$$
passed=0 failed=0

cleanup() {
    if command -v podman >/dev/null 2>&1; then
        podman rmi -f "$image" >/dev/null 2>&1
    fi
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

in_podman() {
    podman run --rm --runtime runc --cgroup-manager=cgroupfs --network=none \
        --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 "$image" "$@"
}
in_chroot() {
    if [ "$(id -u)" = 0 ]; then
        chroot "$work/root" "$@"
    else
        unshare -r chroot "$work/root" "$@"
    fi
}

# expect WHAT STATUSES TEXT COMMAND...: runs it alone; TEXT is what its output must hold.
expect() {
    what=$1 statuses=$2 text=$3
    shift 3
    output=$($how "$@" 2>&1)
    status=$?
    case " $statuses " in
    *" $status "*)
        case $output in
        *"$text"*)
            passed=$((passed + 1))
            return
            ;;
        esac
        ;;
    esac
    failed=$((failed + 1))
    printf 'FAIL %s (%s): status %s\n%s\n' "$what" "$how" "$status" "$output"
}

mkdir "$work/root" && cp "$exe" "$work/root/gpumend" && chmod 755 "$work/root/gpumend" || exit 1
tar -C "$work/root" -cf "$work/image.tar" gpumend || exit 1

if readelf -lW "$exe" | grep -q INTERP; then
    echo "FAIL $exe asks for a program interpreter: it is not static"
    failed=$((failed + 1))
else
    passed=$((passed + 1))
fi

# Whether a way works is asked with a program that does nothing, so that a gpumend which does not
# start is a failure and not a skip.
mkdir "$work/control" &&
    echo 'int main(void) { return 0; }' | cc -static -x c - -o "$work/control/gpumend" &&
    tar -C "$work/control" -cf "$work/control.tar" gpumend || exit 1

how=
if command -v podman >/dev/null 2>&1; then
    if podman import "$work/control.tar" "$image" >"$work/why" 2>&1 &&
        in_podman /gpumend >"$work/why" 2>&1 &&
        podman rmi -f "$image" >/dev/null 2>&1 &&
        podman import "$work/image.tar" "$image" >"$work/why" 2>&1; then
        how=in_podman
    else
        echo "podman: $(tail -n 1 "$work/why")"
    fi
fi
if [ -z "$how" ]; then
    mv "$work/root" "$work/aside" && mv "$work/control" "$work/root"
    in_chroot /gpumend >"$work/why" 2>&1 && how=in_chroot
    mv "$work/root" "$work/control" && mv "$work/aside" "$work/root"
fi
if [ -z "$how" ]; then
    echo "SKIP container: neither podman nor chroot can start a program here"
    echo "$passed passed, $failed failed, 1 skipped"
    [ $failed = 0 ]
    exit
fi

expect "--version" 0 gpumend /gpumend --version
expect "--help" 0 check /gpumend --help
expect "check, with nothing there" "0 1 3" "" /gpumend check
expect "check of itself" "0 1" "" /gpumend check /gpumend
expect "why, of a static program" "0 1 3" static /gpumend why --exe /gpumend
expect "why, of a program that is not there" 3 /bin/sh /gpumend why --exe /bin/sh
expect "explain" 0 cudnn /gpumend explain cudnn-sublibrary-missing
echo "$how"
if in_chroot /gpumend --version >"$work/why" 2>&1; then # neither /proc nor /sys
    how=in_chroot
    expect "choose" 0 "cannot be determined" /gpumend choose
    expect "choose --require-gpu" 1 "cannot be determined" /gpumend choose --require-gpu
fi
echo "$passed passed, $failed failed"
[ $failed = 0 ]
