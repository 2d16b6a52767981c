/* `container cdi`: the file is written here, by one rename, and never over another's. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "container/cdi_files.h"
#include "report/cdi.h"

enum { O_ROOT = 1, O_JSON, O_CHECK, O_REFRESH, O_WRITE, O_FOLDER };

static const struct cli_option options[] = {
    {"write", NULL, "write the specification of each vendor into the folder", O_WRITE},
    {"refresh", NULL, "write those again that gpumend has written and that are stale", O_REFRESH},
    {"check", NULL, "say what is wrong with the specifications that engines read here", O_CHECK},
    {"folder", "DIR", "where to write (/etc/cdi)", O_FOLDER},
    {"root", "DIR", "look at the file system below DIR; nothing is written", O_ROOT},
    {"json", NULL, "print JSON (docs/json.md)", O_JSON},
};

struct request {
    const char *root, *folder;
    bool json, check, refresh, write;
};

/* ------------------------------------------------------------------ writing */

/* 0 or a negative errno; *ret_theirs: a file of this name is there that gpumend did not write. */
static int look_at_old(struct arena *a, int folder, const char *name, bool *ret_there,
                       bool *ret_theirs)
{
    enum { HEAD = 64 };
    char *head = arena_alloc(a, HEAD);
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    *ret_there = fd >= 0 || errno != ENOENT;
    if (fd < 0) {
        *ret_theirs = *ret_there;
        return 0;
    }
    ssize_t n = read(fd, head, HEAD);
    int rc = n < 0 ? -errno : 0;
    (void)close(fd);
    *ret_theirs = rc < 0 || !cdi_is_ours((struct str){head, (size_t)n});
    return 0;
}

static int write_whole(int fd, const char *text)
{
    for (size_t n = strlen(text); n;) {
        ssize_t done = write(fd, text, n);
        if (done < 0 && errno != EINTR) {
            return -errno;
        }
        text += done > 0 ? done : 0;
        n -= done > 0 ? (size_t)done : 0;
    }
    return fsync(fd) < 0 || fchmod(fd, 0644) < 0 ? -errno : 0; // whatever the umask is
}

/* A new file beside it, then one rename; without `replace` a link that fails where one is there. */
static int put(struct arena *a, int folder, const char *name, const char *text, bool replace)
{
    const char *beside = arena_printf(a, ".%s.%ld", name, (long)getpid());
    int fd = openat(folder, beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return -errno;
    }
    int rc = write_whole(fd, text);
    (void)close(fd);
    if (rc == 0 && replace && renameat(folder, beside, folder, name) < 0) {
        rc = -errno;
    } else if (rc == 0 && !replace && linkat(folder, beside, folder, name, 0) < 0) {
        rc = -errno;
    }
    if (rc < 0 || !replace) {
        (void)unlinkat(folder, beside, 0); // ours alone; a failure leaves a hidden file that no engine reads
    }
    return rc == 0 && fsync(folder) < 0 ? -errno : rc;
}

static int write_one(struct arena *a, const struct request *q, int folder,
                     const struct cdi_spec *spec)
{
    bool there = false, theirs = false;
    int rc = look_at_old(a, folder, spec->file, &there, &theirs);
    if (rc == 0 && theirs) {
        return cli_fail(CLI_CANNOT, "container: %s/%s was not written by gpumend: it stays as it is",
                        q->folder, spec->file);
    }
    if (rc == 0 && q->refresh && !there) {
        return CLI_OK;
    }
    rc = rc == 0 ? put(a, folder, spec->file, cdi_text(a, spec), there) : rc;
    if (rc < 0) {
        return cli_fail(CLI_CANNOT, "container: %s/%s: %s", q->folder, spec->file, strerror(-rc));
    }
    printf("wrote %s/%s: %s\n", q->folder, spec->file, spec->kind);
    return CLI_OK;
}

/* Whether another file of the folder defines the kind already: engines would resolve neither. */
static const char *other_of_kind(struct arena *a, const struct request *q,
                                 const struct cdi_files *files, const struct cdi_spec *spec)
{
    for (size_t i = 0; i < files->files.n; i++) {
        const struct cdi_file *f = &files->files.items[i];
        if (f->kind && strcmp(f->kind, spec->kind) == 0 && !f->ours &&
            strcmp(path_dir(a, f->path), q->folder) == 0) {
            return f->path;
        }
    }
    return NULL;
}

static int write_all(struct arena *a, const struct request *q, const struct cdi_specs *specs,
                     const struct cdi_files *files)
{
    int status = CLI_OK;
    int folder = open(q->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0 && errno == ENOENT && q->write && mkdir(q->folder, 0755) == 0) {
        folder = open(q->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (folder < 0) {
        return cli_fail(CLI_CANNOT, "container: %s: %s", q->folder, strerror(errno));
    }
    for (size_t i = 0; i < specs->specs.n; i++) {
        const struct cdi_spec *spec = &specs->specs.items[i];
        const char *other = other_of_kind(a, q, files, spec);
        int rc = other && q->write
                     ? cli_fail(CLI_CANNOT, "container: %s defines %s already, and engines resolve "
                                "neither of two files that define the same devices; refresh that "
                                "one, or remove it first", other, spec->kind)
                     : write_one(a, q, folder, spec);
        status = status == CLI_OK ? rc : status;
    }
    (void)close(folder);
    return status;
}

/* ------------------------------------------------------------------ the command */

static int print_specs(struct arena *a, const struct cdi_specs *specs)
{
    for (size_t i = 0; i < specs->specs.n; i++) {
        printf("%s%s", i ? "---\n" : "", cdi_text(a, &specs->specs.items[i]));
    }
    return CLI_OK;
}

static int check(struct arena *a, const struct request *q, const struct cdi_files *files)
{
    struct out out;
    if (q->json) {
        if (out_json_dump(stdout, report_cdi_json(a, files)) < 0) {
            return cli_fail(CLI_CANNOT, "cannot write the output");
        }
    } else {
        out_init(&out, stdout);
        report_cdi_text(&out, a, files);
    }
    return report_cdi_errors(files) ? CLI_FINDINGS : CLI_OK;
}

static int build(struct arena *a, const struct request *q, struct root *root, const struct host *h,
                 const struct cdi_files *files)
{
    struct cdi_specs specs;
    cdi_build(root, a, h, &specs);
    for (size_t i = 0; i < specs.left_out.n; i++) {
        (void)cli_fail(CLI_OK, "container: left out: %s", specs.left_out.items[i]);
    }
    int status;
    if (specs.specs.n == 0) {
        status = cli_fail(CLI_CANNOT, "container: there is no GPU here that a container could use");
    } else {
        status = q->write || q->refresh ? write_all(a, q, &specs, files) : print_specs(a, &specs);
    }
    cdi_specs_release(&specs);
    return status;
}

static int cdi(struct arena *a, const struct request *q)
{
    struct root root = ROOT_EMPTY;
    struct gm_err err;
    struct host host;
    struct cdi_files files;
    if (root_open(&root, q->root, &err) < 0) {
        return cli_fail(CLI_CANNOT, "container: %s", str_printable(a, err.text));
    }
    if (host_collect(&root, a, &host, &err) < 0) {
        root_close(&root);
        return cli_fail(CLI_CANNOT, "container: %s", str_printable(a, err.text));
    }
    host_judge(&host, a);
    cdi_files_read(&root, a, &host, &files);
    int status = q->check ? check(a, q, &files) : build(a, q, &root, &host, &files);
    cdi_files_release(&files);
    root_close(&root);
    return status;
}

static int take(struct request *q, int id, const char *value)
{
    switch (id) {
    case O_ROOT: q->root = value; return CLI_OK;
    case O_FOLDER: q->folder = value; return CLI_OK;
    case O_JSON: q->json = true; return CLI_OK;
    case O_CHECK: q->check = true; return CLI_OK;
    case O_REFRESH: q->refresh = true; return CLI_OK;
    case O_WRITE: q->write = true; return CLI_OK;
    default: return CLI_USAGE;
    }
}

static int run(const struct cli_command *self, int argc, char **argv)
{
    struct cli_args args = {.command = self, .argc = argc, .argv = argv};
    struct request q = {.root = "/", .folder = cdi_folders[0]};
    const char *what = NULL;
    for (int id; (id = cli_next(&args)) != CLI_END;) {
        if (id == CLI_HELP) {
            return CLI_OK;
        }
        if (id == CLI_ARGUMENT && !what) {
            what = args.value;
        } else if (id == CLI_ARGUMENT || take(&q, id, args.value) != CLI_OK) {
            return id == CLI_ARGUMENT
                       ? cli_fail(CLI_USAGE, "container: takes one argument, but %s was given too",
                                  args.value)
                       : CLI_USAGE;
        }
    }
    if (!what || strcmp(what, "cdi") != 0) {
        return cli_fail(CLI_USAGE, "container: say what to make: cdi");
    }
    if (q.check + q.refresh + q.write > 1) {
        return cli_fail(CLI_USAGE, "container: --check, --refresh and --write are three things");
    }
    if ((q.refresh || q.write) && strcmp(q.root, "/") != 0) {
        return cli_fail(CLI_USAGE, "container: only this machine's specification can be written");
    }
    struct arena arena;
    arena_init(&arena, ARENA_LIMIT_DEFAULT, NULL, NULL);
    int status = cdi(&arena, &q);
    arena_release(&arena);
    return status;
}

const struct cli_command cli_container = {
    .name = "container",
    .arguments = "cdi [options]",
    .summary = "what gives containers the GPUs of this machine",
    .text = "`container cdi` prints a Container Device Interface specification for the GPUs here,\n"
            "one document a vendor: podman, docker, containerd and CRI-O then know the devices\n"
            "nvidia.com/gpu=0, nvidia.com/gpu=all and so on. It has no hooks and is of the lowest\n"
            "version that has its fields, so that old engines load it. --write puts it where\n"
            "engines look; what gpumend did not write is never written over.\n"
            "--check reads the specifications of every folder that engines read, whoever wrote\n"
            "them, and says which are refused or stale: exit status 1 if one is.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .run = run,
};
