#include "base/windows/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/windows/api.h"

/* ------------------------------------------------------------------ texts */

enum { BAD = 0x110000 };

/* The code point at *at, which moves on; BAD for what is not UTF-8. A surrogate counts (WTF-8). */
static uint32_t next_code_point(const unsigned char **at)
{
    const unsigned char *s = *at;
    unsigned more = s[0] < 0x80 ? 0 : s[0] < 0xc2 ? 4 : s[0] < 0xe0 ? 1 : s[0] < 0xf0 ? 2 : 3;
    uint32_t code = more == 0 ? s[0] : s[0] & (0x3fu >> more);
    if (more == 4 || s[0] > 0xf4) {
        return BAD;
    }
    for (unsigned i = 1; i <= more; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            return BAD;
        }
        code = code << 6 | (s[i] & 0x3f);
    }
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    *at = s + more + 1;
    return code < least[more] || code > 0x10ffff ? BAD : code;
}

/* At most as many units as there are bytes. */
static wchar_t *widen(const char *text, size_t room_before)
{
    const unsigned char *at = (const unsigned char *)text;
    wchar_t *wide = calloc(room_before + strlen(text) + 1, sizeof *wide);
    wchar_t *to = wide ? wide + room_before : NULL;
    while (to && *at) {
        uint32_t code = next_code_point(&at);
        if (code == BAD) {
            free(wide);
            errno = EILSEQ;
            return NULL;
        }
        if (code >= 0x10000) {
            *to++ = (wchar_t)(0xd7c0 + (code >> 10));
            code = 0xdc00 + (code & 0x3ff);
        }
        *to++ = (wchar_t)code;
    }
    return wide;
}

wchar_t *sys_wide(const char *text)
{
    return widen(text, 0);
}

char *sys_narrow(const wchar_t *text)
{
    static const unsigned char lead[] = {0, 0xc0, 0xe0, 0xf0};
    unsigned char *bytes = malloc(wcslen(text) * 3 + 1), *to = bytes;
    for (const wchar_t *at = text; bytes && *at; at++) {
        uint32_t code = *at;
        if (code >= 0xd800 && code < 0xdc00 && at[1] >= 0xdc00 && at[1] < 0xe000) {
            code = 0x10000 + ((code - 0xd800) << 10) + (*++at - 0xdc00u);
        }
        if (code < 0x80) {
            *to++ = (unsigned char)code;
            continue;
        }
        unsigned more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
        *to++ = (unsigned char)(lead[more] | code >> 6 * more);
        while (more-- > 0) {
            *to++ = (unsigned char)(0x80 | (code >> 6 * more & 0x3f));
        }
    }
    if (bytes) {
        *to = '\0';
    }
    return (char *)bytes;
}

/* Without this prefix a path has at most 260 characters ("Maximum Path Length Limitation"). It
 * takes an absolute path as it stands: no '/', no "..". */
static const wchar_t prefix[] = L"\\\\?\\", prefix_unc[] = L"\\\\?\\UNC";
enum { SHORT_MAX = 240 };

wchar_t *sys_wide_path(const char *path)
{
    wchar_t *wide = widen(path, 0);
    if (!wide || wcslen(wide) < SHORT_MAX || wcsncmp(wide, prefix, 4) == 0) {
        return wide;
    }
    DWORD n = GetFullPathNameW(wide, 0, NULL, NULL);
    wchar_t *full = calloc(n + 8, sizeof *full);
    if (!full || n == 0 || GetFullPathNameW(wide, n, full + 7, NULL) == 0) {
        errno = full ? sys_errno() : ENOMEM;
        free(full);
        free(wide);
        return NULL;
    }
    free(wide);
    if (full[7] == L'\\' && full[8] == L'\\') { // \\server\share: one of its two goes
        memmove(full + 7, full + 8, (wcslen(full + 8) + 1) * sizeof *full);
        memcpy(full, prefix_unc, 7 * sizeof *full);
    } else {
        memmove(full + 4, full + 7, (wcslen(full + 7) + 1) * sizeof *full);
        memcpy(full, prefix, 4 * sizeof *full);
    }
    return full;
}

int sys_errno(void)
{
    static const struct {
        DWORD error;
        int number;
    } table[] = {
        {ERROR_FILE_NOT_FOUND, ENOENT},
        {ERROR_PATH_NOT_FOUND, ENOENT},
        {ERROR_INVALID_DRIVE, ENOENT},
        {ERROR_INVALID_NAME, ENOENT},
        {ERROR_DIRECTORY, ENOTDIR},
        {ERROR_ACCESS_DENIED, EACCES},
        {ERROR_SHARING_VIOLATION, EBUSY},
        {ERROR_LOCK_VIOLATION, EBUSY},
        {ERROR_TOO_MANY_OPEN_FILES, EMFILE},
        {ERROR_NOT_ENOUGH_MEMORY, ENOMEM},
        {ERROR_OUTOFMEMORY, ENOMEM},
        {ERROR_COMMITMENT_LIMIT, ENOMEM},
        {ERROR_FILENAME_EXCED_RANGE, ENAMETOOLONG},
        {ERROR_CANT_RESOLVE_FILENAME, ELOOP},
        {ERROR_NOT_SUPPORTED, ENOTSUP},
    };
    DWORD error = GetLastError();
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (table[i].error == error) {
            return table[i].number;
        }
    }
    return EIO;
}

/* ------------------------------------------------------------------ files */

static struct timespec time_of(FILETIME t)
{
    enum { UNITS = 10000000 };                         // 100 ns
    const int64_t epoch = INT64_C(116444736000000000); // 1601 to 1970
    int64_t units = (int64_t)((uint64_t)t.dwHighDateTime << 32 | t.dwLowDateTime) - epoch;
    return (struct timespec){units / UNITS, (long)(units % UNITS * 100)};
}

static int stat_handle(HANDLE file, bool link, struct stat *ret)
{
    BY_HANDLE_FILE_INFORMATION info;
    DWORD type = GetFileType(file);
    if (type != FILE_TYPE_DISK) {
        *ret = (struct stat){.st_mode = type == FILE_TYPE_PIPE ? S_IFIFO : S_IFCHR, .st_nlink = 1};
        return 0;
    }
    if (!GetFileInformationByHandle(file, &info)) {
        errno = sys_errno();
        return -1;
    }
    bool folder = info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY;
    *ret = (struct stat){
        .st_dev = info.dwVolumeSerialNumber,
        .st_ino = (uint64_t)info.nFileIndexHigh << 32 | info.nFileIndexLow,
        .st_mode = link     ? S_IFLNK | 0777
                   : folder ? S_IFDIR | 0755
                            : S_IFREG | 0755, // who may do what no mode can say
        .st_nlink = info.nNumberOfLinks,
        .st_uid = getuid(),
        .st_gid = getegid(),
        .st_size = (int64_t)((uint64_t)info.nFileSizeHigh << 32 | info.nFileSizeLow),
        .st_mtim = time_of(info.ftLastWriteTime),
        .st_ctim = time_of(info.ftLastWriteTime), // the time of a change is not told
    };
    return 0;
}

/* Opens for reading, or with 0 for looking at it alone. Others may write, rename and remove it
 * meanwhile, as on the systems of POSIX. */
static HANDLE open_handle(const char *path, DWORD rights, DWORD flags)
{
    wchar_t *wide = sys_wide_path(path);
    if (!wide) {
        return INVALID_HANDLE_VALUE;
    }
    HANDLE file = CreateFileW(wide, rights, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
                              NULL, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS | flags, NULL);
    if (file == INVALID_HANDLE_VALUE) {
        errno = sys_errno();
    }
    free(wide);
    return file;
}

int sys_stat(const char *path, struct sys_stat *ret)
{
    HANDLE file = open_handle(path, FILE_READ_ATTRIBUTES, 0);
    if (file == INVALID_HANDLE_VALUE) {
        return -1;
    }
    int rc = stat_handle(file, false, ret);
    (void)CloseHandle(file); // only looked at
    return rc;
}

int sys_lstat(const char *path, struct sys_stat *ret)
{
    HANDLE file = open_handle(path, FILE_READ_ATTRIBUTES, FILE_FLAG_OPEN_REPARSE_POINT);
    if (file == INVALID_HANDLE_VALUE) {
        return -1;
    }
    FILE_ATTRIBUTE_TAG_INFO tag;
    bool told = GetFileInformationByHandleEx(file, FileAttributeTagInfo, &tag, sizeof tag);
    bool reparse = told && tag.FileAttributes & FILE_ATTRIBUTE_REPARSE_POINT;
    bool link = reparse && IsReparseTagNameSurrogate(tag.ReparseTag);
    int rc = reparse && !link ? sys_stat(path, ret) : stat_handle(file, link, ret);
    (void)CloseHandle(file); // only looked at
    return rc;
}

int sys_fstat(int fd, struct sys_stat *ret)
{
    intptr_t handle = _get_osfhandle(fd);
    if (handle == -1) {
        errno = EBADF;
        return -1;
    }
    return stat_handle((HANDLE)handle, false, ret);
}

int sys_open(const char *path, int flags)
{
    struct stat st;
    HANDLE file = open_handle(path, GENERIC_READ, 0);
    if (file == INVALID_HANDLE_VALUE) {
        return -1;
    }
    int fd = stat_handle(file, false, &st) < 0 ? -1 : -2;
    if (fd == -2 && S_ISDIR(st.st_mode)) { // read() would have said so
        errno = EISDIR;
    } else if (fd == -2) {
        fd = _open_osfhandle((intptr_t)file, flags | _O_RDONLY | _O_BINARY | _O_NOINHERIT);
    }
    if (fd < 0) {
        (void)CloseHandle(file); // only looked at
    }
    return fd < 0 ? -1 : fd;
}

int sys_access(const char *path, int mode)
{
    HANDLE file = open_handle(path, mode == F_OK ? FILE_READ_ATTRIBUTES : GENERIC_READ, 0);
    if (file == INVALID_HANDLE_VALUE) {
        return -1;
    }
    (void)CloseHandle(file); // only looked at
    return 0;
}

ssize_t pread(int fd, void *to, size_t n, long long offset)
{
    OVERLAPPED at = {.Offset = (DWORD)offset, .OffsetHigh = (DWORD)((uint64_t)offset >> 32)};
    DWORD got = 0;
    DWORD want = n > INT32_MAX ? INT32_MAX : (DWORD)n;
    if (!ReadFile((HANDLE)_get_osfhandle(fd), to, want, &got, &at) &&
        GetLastError() != ERROR_HANDLE_EOF) {
        errno = sys_errno();
        return -1;
    }
    return got;
}

int statx(int folder, const char *path, int flags, unsigned mask, struct statx *ret)
{
    (void)folder, (void)path, (void)flags, (void)mask;
    *ret = (struct statx){0};
    errno = ENOTSUP;
    return -1;
}

/* ------------------------------------------------------------------ memory */

static DWORD protection_of(int protection)
{
    return protection & PROT_WRITE ? PAGE_READWRITE : protection ? PAGE_READONLY : PAGE_NOACCESS;
}

/* All of the file: a caller may ask for whole pages, which reach behind its end. */
static void *map_file(int fd)
{
    HANDLE file = (HANDLE)_get_osfhandle(fd);
    HANDLE mapping = CreateFileMappingW(file, NULL, PAGE_READONLY, 0, 0, NULL);
    void *data = mapping ? MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, 0) : NULL;
    if (!data) {
        errno = sys_errno();
    }
    if (mapping) {
        (void)CloseHandle(mapping); // the view keeps it
    }
    return data;
}

void *mmap(void *at, size_t size, int protection, int flags, int fd, long long offset)
{
    if (at || offset) {
        errno = EINVAL;
        return MAP_FAILED;
    }
    if (flags & MAP_ANONYMOUS) {
        void *data = VirtualAlloc(NULL, size, MEM_RESERVE | MEM_COMMIT, protection_of(protection));
        errno = data ? errno : ENOMEM;
        return data ? data : MAP_FAILED;
    }
    void *data = map_file(fd);
    if (data && protection != PROT_READ && mprotect(data, size, protection) < 0) {
        (void)munmap(data, size); // errno is mprotect()'s
        data = NULL;
    }
    return data ? data : MAP_FAILED;
}

int mprotect(void *at, size_t size, int protection)
{
    DWORD former;
    if (!VirtualProtect(at, size, protection_of(protection), &former)) {
        errno = sys_errno();
        return -1;
    }
    return 0;
}

int munmap(void *at, size_t size)
{
    MEMORY_BASIC_INFORMATION info;
    (void)size; // always all of it
    bool told = VirtualQuery(at, &info, sizeof info) == sizeof info;
    bool done =
        told && (info.Type == MEM_MAPPED ? UnmapViewOfFile(at) : VirtualFree(at, 0, MEM_RELEASE));
    errno = done ? errno : EINVAL;
    return done ? 0 : -1;
}

int madvise(void *at, size_t size, int advice)
{
    (void)at, (void)size, (void)advice;
    return 0;
}

char *strcasestr(const char *in, const char *what)
{
    for (size_t n = strlen(what);; in++) {
        if (_strnicmp(in, what, n) == 0) {
            return (char *)(uintptr_t)in;
        }
        if (!*in) {
            return NULL;
        }
    }
}

void *memmem(const void *in, size_t n, const void *what, size_t n_what)
{
    const char *at = in, *first = what;
    while (n_what && n >= n_what) {
        const char *found = memchr(at, *first, n - n_what + 1);
        if (!found) {
            return NULL;
        }
        if (memcmp(found, what, n_what) == 0) {
            return (void *)(uintptr_t)found;
        }
        n -= (size_t)(found + 1 - at);
        at = found + 1;
    }
    return n_what ? NULL : (void *)(uintptr_t)in;
}

void *memrchr(const void *in, int c, size_t n)
{
    const unsigned char *s = in;
    while (n-- > 0) {
        if (s[n] == (unsigned char)c) {
            return (void *)(uintptr_t)(s + n);
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------ the process */

unsigned getuid(void)
{
    return 65534;
}

unsigned getegid(void)
{
    return 65534;
}

long sysconf(int name)
{
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return name == _SC_PAGESIZE ? (long)info.dwPageSize : -1;
}

int kill(int pid, int signal_number)
{
    (void)pid, (void)signal_number;
    errno = ENOENT;
    return -1;
}

int nanosleep(const struct timespec *time, struct timespec *rest)
{
    (void)rest; // no signal cuts it short
    Sleep((DWORD)(time->tv_sec * 1000 + time->tv_nsec / 1000000));
    return 0;
}

int sigemptyset(sigset_t *set)
{
    *set = 0;
    return 0;
}

static struct {
    struct sigaction action; // of SIGSEGV
    void *registered;
} faults;

static LONG CALLBACK on_exception(EXCEPTION_POINTERS *exception)
{
    const EXCEPTION_RECORD *r = exception->ExceptionRecord;
    MEMORY_BASIC_INFORMATION info;
    if (r->ExceptionCode != EXCEPTION_ACCESS_VIOLATION || r->NumberParameters < 2 ||
        !faults.action.sa_sigaction) {
        return EXCEPTION_CONTINUE_SEARCH;
    }
    void *at = (void *)r->ExceptionInformation[1];
    bool ours = VirtualQuery(at, &info, sizeof info) == sizeof info && info.State == MEM_COMMIT;
    siginfo_t said = {.si_addr = at, .si_code = ours ? SEGV_ACCERR : 0};
    faults.action.sa_sigaction(SIGSEGV, &said, NULL);
    /* The handler takes itself away when the fault is not its own. */
    return faults.action.sa_sigaction ? EXCEPTION_CONTINUE_EXECUTION : EXCEPTION_CONTINUE_SEARCH;
}

int sigaction(int signal_number, const struct sigaction *action, struct sigaction *ret_former)
{
    if (signal_number != SIGSEGV) {
        void (*former)(int) = signal(signal_number, action->sa_handler);
        if (ret_former) {
            *ret_former = (struct sigaction){.sa_handler = former};
        }
        return former == SIG_ERR ? -1 : 0;
    }
    if (ret_former) {
        *ret_former = faults.action;
    }
    faults.action = *action;
    if (!faults.registered) {
        faults.registered = AddVectoredExceptionHandler(1, on_exception);
    }
    return faults.registered ? 0 : -1;
}
