/* Programs that are built for another processor than the host's. */
#include <elf.h>
#include <string.h>

#include "diag/internal.h"

/* The vendor whose GPU the target would use, or NULL. */
static const char *wanted_gpu(struct diag *d)
{
    const char *who = NULL;
    bool nvidia = diag_wants(d, HOST_NVIDIA, &who) && who;
    return nvidia ? "NVIDIA" : diag_wants(d, HOST_AMD, &who) && who ? "AMD" : NULL;
}

/* A program, and what the kernel does with it. */
struct start {
    const char *path;
    const char *machine; // "aarch64"
    enum host_exec how;
    const struct host_binfmt *by; // how is HOST_EXEC_INTERPRETED
    bool by_missing;              // its file is not there where the kernel looks for it
};

/* Other interpreters (box64, FEX) pass calls of drivers on. */
static bool is_qemu(const struct start *s)
{
    return s->by && starts_with(path_base(s->by->interpreter), "qemu");
}

/* What happens to it, after "PROGRAM is built for X". */
static const char *outcome(struct diag *d, const struct start *s)
{
    const struct host *h = d->m->host;
    const char *host = elf_machine_name(d->a, h->machine);
    if (s->how == HOST_EXEC_INTERPRETED) {
        return s->by_missing
                   ? arena_printf(d->a,
                                  "the host starts %s for it, which is not in the image and is "
                                  "registered without the flag F: \"no such file or directory\"",
                                  s->by->interpreter)
                   : arena_printf(d->a, "the host runs it with %s%s", path_base(s->by->interpreter),
                                  is_qemu(s) ? ", slowly and without a GPU" : "");
    }
    return s->how == HOST_EXEC_NOT
               ? arena_printf(d->a, "the host is %s: its start fails with \"exec format error\"",
                              host)
           : !h->machine
               ? "the host's processor is not known: on another one its start fails with \"exec "
                 "format error\""
               : arena_printf(d->a,
                              "the host is %s: its start fails with \"exec format error\", "
                              "unless the kernel has an interpreter for it",
                              host);
}

static void add_evidence(struct diag *d, struct diag_finding *f, const struct start *s)
{
    const struct host_fact *seen = &d->m->host->binfmts.seen;
    if (s->by) {
        diag_evidence(d, f, "/proc/sys/fs/binfmt_misc/%s: %s%s", s->by->name, s->by->interpreter,
                      s->by->opened ? ", flag F" : "");
    } else if (seen->why) {
        diag_evidence(d, f, "%s: %s", seen->where, seen->why);
    }
}

/* QEMU's table of ioctl(2) has none of the GPU drivers' (qemu, linux-user/ioctls.h), and the
 * driver's libraries are for the host's processor. Of another interpreter it is not known. */
static void weigh(struct diag *d, struct diag_finding *f, const struct start *s)
{
    const char *vendor = wanted_gpu(d);
    bool certain = s->how == HOST_EXEC_NOT || s->by_missing;
    if (!certain && vendor && is_qemu(s)) {
        diag_evidence(d, f, "QEMU does not pass the calls of %s's driver on to the kernel", vendor);
    } else if (!certain) {
        f->severity = DIAG_WARNING;
        d->unsure |= s->how == HOST_EXEC_UNKNOWN || vendor;
    }
}

/* As images are labelled (GOARCH). */
static const char *platform(uint16_t machine)
{
    return machine == EM_AARCH64 ? "arm64" : "amd64";
}

static void start_add(struct diag *d, const struct start *s)
{
    const char *summary =
        arena_printf(d->a, "%s is built for %s, and %s.", s->path, s->machine, outcome(d, s));
    struct diag_finding *f =
        diag_add(d, DIAG_PROGRAM_OTHER_ARCHITECTURE, s->machine, s->path, summary);
    add_evidence(d, f, s);
    weigh(d, f, s);
    uint16_t host = d->m->host->machine;
    if (host && d->m->host_elsewhere) {
        diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                    "Use an image for the host's processor: pull or build it with --platform "
                    "linux/%s.",
                    platform(host));
    } else {
        diag_repair(d, f, DIAG_REPAIR_TEXT, NULL, "Use a build for the host's processor.");
    }
}

/* A tree that does not say what its machine is has the machine of its first program (*own, 0 before
 * that), whatever the machine that judges it; a host of its own is taken for x86-64 (find_cpu). */
static bool runs_on_own_machine(struct diag *d, uint16_t program, uint16_t *own)
{
    if (d->m->host->machine) {
        return false;
    }
    *own = *own ? *own : d->m->host_elsewhere ? EM_X86_64 : program;
    return program == *own;
}

static void path_judge(struct diag *d, const char *path, uint16_t *own)
{
    enum { HEAD = 512 }; // more than any magic of binfmt_misc
    struct start s = {.path = path};
    struct str head;
    bool all;
    uint16_t machine = 0;
    if (root_read_head(d->m->root, d->a, path, HEAD, &head, &all) < 0) {
        return;
    }
    s.how = host_executes(d->m->host, head, &machine, &s.by);
    if (machine == EM_NONE || s.how == HOST_EXEC_NATIVE ||
        (s.how == HOST_EXEC_UNKNOWN && runs_on_own_machine(d, machine, own))) {
        return;
    }
    s.machine = elf_machine_name(d->a, machine);
    s.by_missing = s.by && !s.by->opened && !model_real_path(d->m, s.by->interpreter);
    start_add(d, &s);
}

/* What the kernel executes first: of an image its entry point, and the program of each process. */
void diag_rule_architecture(struct diag *d)
{
    const struct model *m = d->m;
    uint16_t own = EM_NONE;
    if (!m->host || m->pid) {
        return;
    }
    if (m->entry_first) {
        path_judge(d, m->entry_first, &own);
    }
    for (size_t i = 0; i < m->processes.n; i++) {
        const struct ldso_process *p = m->processes.items[i]->ldso;
        if (p && p->main &&
            (p->main->file->image.interp || !m->target_file)) { // a library has none
            path_judge(d, p->main->path, &own);
        }
    }
}
