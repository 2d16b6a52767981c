#include "host/manager.h"

#include <string.h>
#include <sys/stat.h>

#include "base/str.h"
#include "host/internal.h"
#include "host/parse.h"

static const struct host_manager_words words[HOST_MANAGERS] = {
    [HOST_APT] = {"apt-get install", "apt-get update && apt-get install -y", "apt-get remove",
                  false},
    [HOST_DNF] = {"dnf install", "dnf install -y", "dnf remove", true},
    [HOST_MICRODNF] = {"microdnf install", "microdnf install -y", "microdnf remove", true},
    [HOST_YUM] = {"yum install", "yum install -y", "yum remove", true},
    [HOST_ZYPPER] = {"zypper install", "zypper --non-interactive install", "zypper remove", false},
    [HOST_PACMAN] = {"pacman -S", "pacman -Syu --noconfirm", "pacman -R", false},
    [HOST_APK] = {"apk add", "apk add --no-cache", "apk del", false},
};

/* In this order: dnf systems have a yum that is dnf, and Debian may have rpm's tools. */
static const struct {
    const char *program;
    enum host_manager manager;
} programs[] = {
    {"/usr/bin/apt-get", HOST_APT},   {"/usr/bin/dnf", HOST_DNF},
    {"/usr/bin/dnf5", HOST_DNF},      {"/usr/bin/microdnf", HOST_MICRODNF},
    {"/usr/bin/yum", HOST_YUM},       {"/usr/bin/zypper", HOST_ZYPPER},
    {"/usr/bin/pacman", HOST_PACMAN}, {"/sbin/apk", HOST_APK},
    {"/usr/bin/apk", HOST_APK},
};

/* What systems come with. */
static const struct {
    const char *id;
    enum host_manager manager;
} systems[] = {
    {"debian", HOST_APT},  {"ubuntu", HOST_APT},  {"fedora", HOST_DNF},      {"rhel", HOST_DNF},
    {"amzn", HOST_DNF},    {"suse", HOST_ZYPPER}, {"opensuse", HOST_ZYPPER}, {"sles", HOST_ZYPPER},
    {"arch", HOST_PACMAN}, {"alpine", HOST_APK},
};

const struct host_manager_words *host_manager_words(enum host_manager m)
{
    return m == HOST_MANAGER_NONE ? NULL : &words[m];
}

static const char *manager_value(struct arena *a, struct str text, const char *key)
{
    struct str value;
    if (!host_parse_key(text, key, '=', &value)) {
        return NULL;
    }
    bool quoted = value.n > 1 && (value.s[0] == '"' || value.s[0] == '\'') &&
                  value.s[value.n - 1] == value.s[0];
    return str_dup(a, quoted ? (struct str){value.s + 1, value.n - 2} : value);
}

struct host_system host_system(struct root *r, struct arena *a)
{
    enum { TEXT_MAX = 64 << 10 };
    static const char *const paths[] = {"/etc/os-release", "/usr/lib/os-release"};
    struct str text;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        if (root_read(r, a, paths[i], TEXT_MAX, &text) == 0) {
            return (struct host_system){manager_value(a, text, "ID"),
                                        manager_value(a, text, "ID_LIKE"),
                                        manager_value(a, text, "VERSION_ID")};
        }
    }
    return (struct host_system){0};
}

bool host_system_is(const struct host_system *s, const char *id)
{
    struct str rest = str_of(s->like);
    bool is = s->id && strcmp(s->id, id) == 0;
    while (!is && rest.n) {
        is = str_is(str_cut(&rest, ' '), id);
    }
    return is;
}

/* dnf's name of what the packages are built for, "platform:el9". Oracle Linux and Amazon Linux are
 * both like Fedora by ID_LIKE; this tells what their packages are. */
static bool is_platform(const struct host *h, const char *begins)
{
    size_t n = strlen(begins);
    return h->os_platform.state == HOST_YES && starts_with(h->os_platform.value, begins) &&
           str_is_digit(h->os_platform.value[n]);
}

bool host_is(const struct host *h, const char *os)
{
    struct host_system s = {
        .id = h->os.state == HOST_YES ? h->os.value : NULL,
        .like = h->os_like.state == HOST_YES ? h->os_like.value : NULL,
    };
    bool is_id = s.id && strcmp(s.id, os) == 0;
    bool of_fedora = s.id && is_platform(h, "platform:f");
    if (strcmp(os, "fedora") == 0) {
        return is_id || of_fedora;
    }
    if (strcmp(os, "rhel") == 0 && of_fedora) {
        return false; // Nobara names rhel as well
    }
    return host_system_is(&s, os) ||
           (strcmp(os, "rhel") == 0 && s.id && is_platform(h, "platform:el"));
}

enum host_manager host_manager(struct root *r, struct arena *a)
{
    struct stat st;
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        if (root_stat(r, programs[i].program, &st) == 0) {
            return programs[i].manager;
        }
    }
    struct host_system s = host_system(r, a);
    for (size_t i = 0; i < sizeof systems / sizeof *systems; i++) {
        if (host_system_is(&s, systems[i].id)) {
            return systems[i].manager;
        }
    }
    return HOST_MANAGER_NONE;
}
