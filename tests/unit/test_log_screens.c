/* What nvidia-smi, rocm-smi and their like print, as facts; GPUs by their names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "kbfixture.h"
#include "log/internal.h"

/* ------------------------------------------------------------------ screens */

/* Facts that screens and names gave, as "LINE:KIND(FIELD=VALUE,...)". */
static const char *told(struct fixture *f, struct log_rules *rules, const char *text)
{
    struct log *l = log_open(rules, &f->arena);
    struct log_result r;
    const char *out = "";
    log_feed(l, text, strlen(text));
    log_end(l);
    log_judge(l, &f->arena, &r);
    for (size_t i = 0; i < r.n_facts; i++) {
        const struct log_fact *fact = r.facts[i];
        if (strcmp(fact->signature, "screen") != 0) {
            continue;
        }
        out = arena_printf(&f->arena, "%s%s%d:%s(", out, *out ? " " : "", (int)fact->line,
                           fact->kind);
        for (size_t k = 0; k < fact->n_fields; k++) {
            if (strcmp(fact->fields[k].name, "vendor") != 0) {
                out = arena_printf(&f->arena, "%s%s=%s;", out, fact->fields[k].name,
                                   fact->fields[k].value);
            }
        }
        out = arena_printf(&f->arena, "%s)", out);
    }
    return out;
}

static const struct {
    const char *name, *text, *facts;
} screens[] = {
    {"nvidia-smi of a 375 driver",
     "+-----------------------------------------------------------------------------+\n"
     "| NVIDIA-SMI 375.26                 Driver Version: 375.26                    |\n"
     "|-------------------------------+----------------------+----------------------+\n"
     "| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |\n"
     "| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |\n"
     "|===============================+======================+======================|\n"
     "|   0  Tesla K80           Off  | 0000:04:00.0     Off |                    0 |\n"
     "| N/A   45C    P8     9W / 149W |      5MiB / 11439MiB |      0%   E. Process |\n"
     "+-------------------------------+----------------------+----------------------+\n"
     "| Processes:                                                       GPU Memory |\n"
     "|  GPU       PID  Type  Process name                               Usage      |\n"
     "|=============================================================================|\n"
     "|    0     12345    C   python                                      10987MiB |\n",
     "7:gpu(gpu=Tesla K80;index=0;) "
     "8:gpu-memory(memory_used=5MiB;memory_total=11439MiB;utilisation=0%;compute_mode=E. Process;"
     "index=0;) 13:gpu-process(pid=12345;type=C;process=python;memory=10987MiB;index=0;)"},
    {"nvidia-smi of a 535 driver with MIG",
     "| NVIDIA-SMI 535.104.05   Driver Version: 535.104.05   CUDA Version: 12.2     |\n"
     "|   0  NVIDIA A100-SXM...  On   | 00000000:01:00.0 Off |                    0 |\n"
     "| N/A   45C    P8     9W /  N/A |  39000MiB / 40536MiB |     N/A      Default |\n"
     "|                               |                      |              Enabled |\n"
     "|    0   N/A  N/A      1234      C   ...conda3/bin/python              4321MiB |\n"
     "|    0   N/A  N/A      1235    C+G   explorer.exe                    N/A      |\n"
     "|  No running processes found                                                 |\n",
     "2:gpu(gpu=NVIDIA A100-SXM...;index=0;) "
     "3:gpu-memory(memory_used=39000MiB;memory_total=40536MiB;compute_mode=Default;index=0;) "
     "4:mig-mode(mode=Enabled;index=0;) "
     "5:gpu-process(pid=1234;type=C;process=...conda3/bin/python;memory=4321MiB;index=0;) "
     "6:gpu-process(pid=1235;type=C+G;process=explorer.exe;memory=N/A;index=0;) "
     "7:gpu-no-processes(index=0;)"},
    {"nvidia-smi since 600, wrapped and without blanks",
     "NVIDIA-SMI 610.43.02 KMD Version: 610.43.02\nCUDA UMD Version: 13.3 |\n"
     "| 0 NVIDIA GeForce RTX 5090 WDDM | 00000000:01:00.0\nOn | N/A |\n"
     "| 0% 45C P8 9W / 450W | 5MiB / 32607MiB | 0% Default |\n",
     "1:driver(driver=610.43.02;) 2:driver(cuda=13.3;) 3:gpu(gpu=NVIDIA GeForce RTX 5090;index=0;) "
     "5:gpu-memory(memory_used=5MiB;memory_total=32607MiB;utilisation=0%;compute_mode=Default;"
     "index=0;)"},
    {"a table without a head, quoted",
     "> | GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |\n"
     "> |   1  GeForce GTX 108...  Off  | 00000000:02:00.0 Off |                  N/A |\n",
     "2:gpu(gpu=GeForce GTX 108...;index=1;)"},
    {"a table that is over",
     "| NVIDIA-SMI 535.104.05   Driver Version: 535.104.05   CUDA Version: 12.2     |\n"
     "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\n"
     "|   0  NVIDIA A100-SXM...  On   | 00000000:01:00.0 Off |                    0 |\n",
     ""},
    {"nvidia-smi -L",
     "GPU 0: NVIDIA TITAN X (Pascal) (UUID: GPU-1b2c3d4e)\n"
     "GPU 12: NVIDIA A100-SXM4-40GB (UUID: GPU-1b2c3d4e)\n"
     "  MIG 3g.20gb     Device  0: (UUID: MIG-1b2c3d4e)\n",
     "1:gpu(gpu=NVIDIA TITAN X (Pascal);index=0;) 2:gpu(gpu=NVIDIA A100-SXM4-40GB;index=12;) "
     "3:mig-device(profile=3g.20gb;device_number=0;index=12;)"},
    {"nvidia-smi -q",
     "==============NVSMI LOG==============\nDriver Version                  : 535.54.03\n"
     "CUDA Version                    : 12.2\nAttached GPUs                   : 1\n"
     "GPU 00000000:01:00.0\n    Product Name                : NVIDIA GeForce GTX 1080 Ti\n"
     "    MIG Mode\n        Current                 : N/A\n"
     "    Compute Mode                : Default\n"
     "    FB Memory Usage\n        Total                   : 11264 MiB\n"
     "        Used                    : 21 MiB\n    BAR1 Memory Usage\n"
     "        Total                   : 256 MiB\n",
     "3:driver(cuda=12.2;) 6:gpu(gpu=NVIDIA GeForce GTX 1080 Ti;) "
     "9:compute-mode(compute_mode=Default;) "
     "11:gpu-memory(memory_total=11264 MiB;) 12:gpu-memory(memory_used=21 MiB;)"},
    {"a query with its head",
     "name, driver_version, memory.total [MiB], compute_cap\n"
     "NVIDIA GeForce RTX 3090, 535.54.03, 24576 MiB, 8.6\nTesla K80, 535.54.03, [N/A], 3.7\n",
     "2:gpu(gpu=NVIDIA GeForce RTX 3090;) 2:driver(driver=535.54.03;) "
     "2:capability(arch=8.6;gpu=NVIDIA GeForce RTX 3090;) 2:gpu-memory(memory_total=24576 MiB;) "
     "3:gpu(gpu=Tesla K80;) 3:driver(driver=535.54.03;) 3:capability(arch=3.7;gpu=Tesla K80;)"},
    {"a query without a head",
     "$ nvidia-smi --query-compute-apps=pid,process_name,used_memory --format=csv,noheader\n"
     "4711, python3, 9123 MiB\n",
     "2:gpu-process(process=python3;pid=4711;memory=9123 MiB;)"},
    {"rocm-smi before 6.0",
     "======================= ROCm System Management Interface =======================\n"
     "GPU  Temp (DieEdge)  AvgPwr  SCLK    MCLK     Fan  Perf  PwrCap  VRAM%  GPU%  \n"
     "1    45.0c           30.0W   800Mhz  96Mhz    0%   auto  220.0W   98%   0%    \n",
     "3:gpu-memory(used_percent=98%;index=1;)"},
    {"rocm-smi since 6.0",
     "======================= ROCm System Management Interface =======================\n"
     "0       1     0x744c,   33510  38.0\xc2\xb0"
     "C  10.0W  N/A, N/A, 0   0Mhz  96Mhz  0%  auto  303.0W  3%  0%\n",
     "2:gpu-memory(used_percent=3%;index=0;) 2:gfx(device=744c;index=0;arch=gfx1100;)"},
    {"rocm-smi --showproductname --showmeminfo vram",
     "GPU[0]\t\t: Card series: \t\tNavi 31 [Radeon RX 7900 XT/7900 XTX]\n"
     "GPU[0]\t\t: GFX Version: \t\tgfx1100\nGPU[0]\t\t: Card Series: \t\tN/A\n"
     "GPU[0]\t\t: VRAM Total Memory (B): 17163091968\n"
     "GPU[0]\t\t: VRAM Total Used Memory (B): 17163091\n",
     "1:gpu(gpu=Navi 31 [Radeon RX 7900 XT/7900 XTX];index=0;) 2:gfx(arch=gfx1100;index=0;) "
     "4:gpu-memory(memory_total=16368 MiB;index=0;) 5:gpu-memory(memory_used=16 MiB;index=0;)"},
    {"amd-smi",
     "| AMD-SMI 26.2.1+fc0010cf6a    amdgpu version: 6.16.6   ROCm version: 7.2.0    |\n"
     "| 0000:03:00.0 ...Radeon AI PRO R9700 | 1 %      79 \xc2\xb0"
     "C   0           103/300 W |\n"
     "|   0       0     N/A             N/A | N/A        N/A              161/32624 MB |\n",
     "2:gpu(gpu=Radeon AI PRO R9700;) 3:gpu-memory(memory_used=161;memory_total=32624 "
     "MB;index=0;)"},
    {"rocminfo",
     "ROCk module is loaded\n  Name:                    AMD Ryzen 7 5800X\n"
     "  Marketing Name:          AMD Ryzen 7 5800X 8-Core Processor\n"
     "  Device Type:             CPU\n  Name:                    gfx1031\n"
     "  Marketing Name:          AMD Radeon RX 6700 XT\n  Device Type:             GPU\n",
     "4:hsa-agent(type=CPU;agent=AMD Ryzen 7 5800X;) 6:gpu(gpu=AMD Radeon RX 6700 "
     "XT;arch=gfx1031;) "
     "7:hsa-agent(type=GPU;arch=gfx1031;)"},
    {"xpu-smi and clinfo",
     "| 0         | Device Name: Intel(R) Data Center GPU Flex 170     |\n"
     "Number of platforms                               0\n",
     "1:intel-gpu(gpu=Intel(R) Data Center GPU Flex 170;) 2:opencl-platforms(count=0;)"},
};

static void test_screens(void **state)
{
    struct fixture *f = *state;
    struct log_rules *rules = NULL;
    assert_int_equal(log_rules_load(&f->kb, &f->arena, NULL, &rules, &f->err), 0);
    for (size_t i = 0; i < sizeof screens / sizeof *screens; i++) {
        const char *got = told(f, rules, screens[i].text);
        if (strcmp(got, screens[i].facts) != 0) {
            fail_msg("%s:\n got  %s\n want %s", screens[i].name, got, screens[i].facts);
        }
    }
    for (size_t i = 0; i < screen_rows_count(); i++) {
        assert_int_equal(regex_check(rules, &rules->screen_rows[i], &f->err), 0);
    }
    log_rules_close(rules);
}

/* ------------------------------------------------------------------ names */

static const struct {
    const char *name, *arch; // NULL: not known, or cards differ
} names[] = {
    {"NVIDIA GeForce RTX 5090", "12.0"},
    {"GeForce GTX 1080 Ti", "6.1"},
    {"GTX 1080Ti", "6.1"},
    {"Tesla K80", "3.7"},
    {"Quadro M1000M", "5.0"},
    {"Quadro RTX 5000 with Max-Q Design", "7.5"},
    {"NVIDIA GeForce RTX 4060 Laptop GPU", "8.9"},
    {"NVIDIA GeForce RTX 3050 A Laptop GPU", "8.9"},
    {"NVIDIA GeForce RTX 3050 Laptop GPU", "8.6"},
    {"NVIDIA A100-SXM4-80GB MIG 1g.10gb", "8.0"},
    {"NVIDIA H100 80GB HBM3", "9.0"},
    {"Tesla V100-SXM2-16GB", "7.0"},
    {"NVIDIA TITAN X (Pascal)", "6.1"},
    {"GeForce GTX TITAN X", "5.2"},
    {"NVIDIA RTX 6000 Ada Generation", "8.9"},
    {"Quadro RTX 6000", "7.5"},
    {"NVIDIA RTX 6000 Ada Gene...", "8.9"},
    {"NVIDIA GeForce GTX 108...", "6.1"},
    {"NVIDIA GeForce RTX 40...", "8.9"},
    {"NVIDIA GeForce ...", NULL},
    {"NVIDIA A10...", NULL},
    {"GeForce GT 730", NULL}, // of two generations
    {"NVIDIA RTX 6000", NULL},
    {"AMD Radeon RX 6700 XT", "gfx1031"},
    {"RX 6700 XT", "gfx1031"},
    {"AMD Radeon(TM) 780M", "gfx1103"},
    {"Radeon RX 6850M XT", "gfx1031"},
    {"Navi 31 [Radeon RX 7900 XT/7900 XTX/7900 GRE/7900M]", "gfx1100"},
    {"AMD Instinct MI300X VF", "gfx942"},
    {"Radeon VII", "gfx906"},
    {"AMD Radeon Graphics", NULL},
    {"AMD Radeon Vega 10 Graphics", NULL},
    {"", NULL},
    {"Navi 31 [Radeon RX 7900 XTX", NULL}, // without dots, and without its end
    {"L40S...", "8.9"},
};

static void test_names(void **state)
{
    struct fixture *f = *state;
    struct log_rules *rules = NULL;
    assert_int_equal(log_rules_load(&f->kb, &f->arena, NULL, &rules, &f->err), 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct log_target target = {0};
        bool known = gpu_by_name(rules, names[i].name, &target) != NULL;
        if (known != (names[i].arch != NULL) ||
            (known && strcmp(target.arch, names[i].arch) != 0)) {
            fail_msg("%s is %s", names[i].name, known ? target.arch : "not known");
        }
    }
    struct log_target target;
    assert_non_null(gpu_by_pci(rules, "744c", true, &target));
    assert_string_equal(target.arch, "gfx1100");
    assert_null(gpu_by_pci(rules, "0000", true, &target));
    log_rules_close(rules);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_screens, setup, teardown),
        cmocka_unit_test_setup_teardown(test_names, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
