/* Commands for every system, as the shells of Windows read them: log/shells.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "log/shells.h"

static void test_commands(void **state)
{
    static const struct {
        const char *posix, *windows; // NULL: neither shell reads it
    } cases[] = {
        {"python -m pip install torch", "python -m pip install torch"},
        {"nvidia-smi   # shows the driver", "nvidia-smi"},
        {"pip cache purge && pip install torch",
         "cmd.exe /c \"pip cache purge && pip install torch\""},
        {"export CUDA_LAUNCH_BLOCKING=1", "$env:CUDA_LAUNCH_BLOCKING = \"1\""},
        {"export CUDA_LAUNCH_BLOCKING=1   # then run it again",
         "$env:CUDA_LAUNCH_BLOCKING = \"1\""},
        {"export A=true B_2=\"7.5;8.0+PTX\"", "$env:A = \"true\"; $env:B_2 = \"7.5;8.0+PTX\""},
        {"OLLAMA_VULKAN=1 ollama serve", "$env:OLLAMA_VULKAN = \"1\"; ollama serve"},
        /* An empty value removes the variable there, which shows all GPUs in place of none. */
        {"export CUDA_VISIBLE_DEVICES=\"\"", NULL},
        {"export CUDA_VISIBLE_DEVICES=", NULL},
        {"export LD_LIBRARY_PATH=/usr/lib:$LD_LIBRARY_PATH", NULL},
        {"export LD_BIND_NOW=1", NULL},
        {"export HSA_OVERRIDE_GFX_VERSION=10.3.0", NULL},
        {"export NCCL_P2P_DISABLE=1", NULL},
        {"export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", NULL},
        {"export PATH=/opt/bin:$PATH", NULL},
        {"export X=$(nvidia-smi)", NULL},
        {"export X=\"`id`\"", NULL},
        {"export A=1; python x.py", NULL},
        {"export A=1 && python x.py", NULL},
        {"A=1 sudo systemctl restart ollama", NULL},
        {"A=1 B='x' python x.py", NULL},
        {"A=1 python x.py && true", NULL},
        {"export A", NULL},
        {"export ", NULL},
        {"export 2A=1", NULL},
        {"sudo reboot", NULL},
        {"unset LD_PRELOAD", NULL},
    };
    (void)state;
    struct arena a;
    arena_init(&a, 0, NULL, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *got = log_windows_command(&a, cases[i].posix);
        if (!got != !cases[i].windows || (got && strcmp(got, cases[i].windows) != 0)) {
            fail_msg("%s: got %s", cases[i].posix, got ? got : "none");
        }
    }
    arena_release(&a);
}

/* fish has NAME=value program, export NAME=value and $(...), and none of the others. */
static void test_for_sh(void **state)
{
    static const struct {
        const char *command;
        bool for_sh;
    } cases[] = {
        {"export A=/x${A:+:$A}", true},
        {"V=$(cut -d. -f1 /x) && echo $V", true},
        {"true; d=\"$(ls)\"; echo \"$d\"", true},
        {"echo \"[0-$(($(nproc)-1))]\"", true},
        {"for d in /x/*; do ls $d; done", true},
        {"true; . /etc/os-release; echo $ID", true},
        {"A=1 program", false},
        {"export A=1 B=$PATH", false},
        {"export A=$(nproc)", false},
        {"sudo apt-get install linux-headers-$(uname -r) && nvidia-smi", false},
        {"cmake -DX=$(nproc)", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (log_is_for_sh(cases[i].command) != cases[i].for_sh) {
            fail_msg("%s", cases[i].command);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_commands),
                                       cmocka_unit_test(test_for_sh)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
