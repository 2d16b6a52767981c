/* `container cdi`: the file is written here, by one rename, and never over another's. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/container.h"
#include "report/cdi.h"

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
static int cdi_put_file(struct arena *a, int folder, const char *name, const char *text,
                        bool replace)
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
        (void)unlinkat(folder, beside,
                       0); // ours alone; a failure leaves a hidden file that no engine reads
    }
    return rc == 0 && fsync(folder) < 0 ? -errno : rc;
}

/* `wrote`: takes the paths that were written, or is NULL where they are said. */
static int write_one(struct arena *a, const struct cli_container_cdi *q, int folder,
                     const struct cdi_spec *spec, json_t *wrote)
{
    bool there = false, theirs = false;
    int rc = look_at_old(a, folder, spec->file, &there, &theirs);
    if (rc == 0 && theirs) {
        return cli_fail(CLI_CANNOT,
                        "container: %s/%s was not written by gpumend: it stays as it is", q->folder,
                        spec->file);
    }
    if (rc == 0 && q->refresh && !there) {
        return CLI_OK;
    }
    rc = rc == 0 ? cdi_put_file(a, folder, spec->file, cdi_text(a, spec), there) : rc;
    if (rc < 0) {
        return cli_fail(CLI_CANNOT, "container: %s/%s: %s", q->folder, spec->file, strerror(-rc));
    }
    if (wrote) {
        const char *path = path_join(a, q->folder, spec->file);
        (void)json_array_append_new(wrote, out_json_text(a, path));
    } else {
        printf("wrote %s/%s: %s\n", str_printable(a, q->folder), spec->file, spec->kind);
    }
    return CLI_OK;
}

/* Whether another file of the folder defines the kind already: engines would resolve neither. */
static const char *other_of_kind(struct arena *a, const struct cli_container_cdi *q,
                                 const struct cdi_files *files, const struct cdi_spec *spec)
{
    for (size_t i = 0; i < files->files.n; i++) {
        const struct cdi_file *f = &files->files.items[i];
        bool here = q->is_folder || strcmp(path_dir(a, f->path), q->folder) == 0;
        if (f->kind && strcmp(f->kind, spec->kind) == 0 && !f->ours && f->answers.n && here) {
            return f->path;
        }
    }
    return NULL;
}

static int cdi_write_specs(struct arena *a, const struct cli_container_cdi *q,
                           const struct cdi_specs *specs, const struct cdi_files *files,
                           json_t *wrote)
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
                     ? cli_fail(CLI_CANNOT,
                                "container: %s defines %s already, and engines resolve "
                                "neither of two files that define the same devices; refresh that "
                                "one, or remove it first",
                                other, spec->kind)
                     : write_one(a, q, folder, spec, wrote);
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

static int cdi_check_files(struct arena *a, const struct cli_container_cdi *q,
                           const struct cdi_files *files)
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
    enum cdi_severity worst = report_cdi_worst(files);
    return worst == CDI_ERROR ? CLI_FINDINGS : worst == CDI_OPEN ? CLI_CANNOT : CLI_OK;
}

static void say_rest(const struct cdi_specs *specs)
{
    for (size_t i = 0; i < specs->left_out.n; i++) {
        (void)cli_fail(CLI_OK, "container: left out: %s", specs->left_out.items[i]);
    }
    for (size_t i = 0; i < specs->notes.n; i++) {
        (void)cli_fail(CLI_OK, "container: %s", specs->notes.items[i]);
    }
}

static int cdi_build_specs(struct arena *a, const struct cli_container_cdi *q, struct root *root,
                           const struct host *h, const struct cdi_files *files)
{
    struct cdi_specs specs;
    json_t *wrote = q->json ? json_array() : NULL;
    bool writes = q->write || q->refresh;
    int status = CLI_OK;
    cdi_build(root, a, h, CDI_FOR_ENGINES, &specs);
    if (!q->json) {
        say_rest(&specs);
    }
    if (specs.specs.n == 0) {
        status = cli_fail(CLI_CANNOT, "container: %s",
                          h->gpus.n == 0 && h->pci.state == HOST_UNKNOWN
                              ? "gpumend cannot tell whether there is a GPU here: the bus could "
                                "not be "
                                "read"
                              : "there is no GPU here that a container could use");
    } else if (writes) {
        status = cdi_write_specs(a, q, &specs, files, wrote);
    } else if (!q->json) {
        status = print_specs(a, &specs);
    }
    if (q->json && out_json_dump(stdout, report_cdi_specs_json(a, &specs, wrote)) < 0) {
        status = cli_fail(CLI_CANNOT, "cannot write the output");
    }
    cdi_specs_release(&specs);
    return status;
}

int cli_container_cdi(struct arena *a, const struct cli_container_cdi *q)
{
    struct root root = ROOT_EMPTY;
    struct gm_err err;
    struct host host;
    struct cdi_files files;
    if (root_open(&root, q->host, &err) < 0) {
        return cli_fail(CLI_CANNOT, "container: %s", str_printable(a, err.text));
    }
    if (host_collect(&root, a, &host, &err) < 0) {
        root_close(&root);
        return cli_fail(CLI_CANNOT, "container: %s", str_printable(a, err.text));
    }
    host_judge(&host, a);
    cdi_files_read(&root, a, &host, q->is_folder ? q->folder : NULL, true, &files);
    int status =
        q->check ? cdi_check_files(a, q, &files) : cdi_build_specs(a, q, &root, &host, &files);
    cdi_files_release(&files);
    root_close(&root);
    return status;
}
