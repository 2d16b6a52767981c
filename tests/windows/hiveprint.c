/* Prints all keys and values of hives, for tests/windows/hive.py. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hive/hive.h"

static void print_hex(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        printf("%02x", (unsigned char)s[i]);
    }
}

static int print_key(const struct hive *h, struct arena *a, struct hive_key key, const char *path,
                     struct gm_err *err)
{
    hive_subkeys_list keys;
    hive_values_list values;
    if (hive_values(h, a, key, &values, err) < 0 || hive_subkeys(h, a, key, &keys, err) < 0) {
        return -1;
    }
    printf("key %s\n", path);
    for (size_t i = 0; i < values.n; i++) {
        const struct hive_value *v = &values.items[i];
        const char *text = hive_text(a, v);
        printf("value %s %u %s ", v->name, (unsigned)v->type, text ? text : "-");
        print_hex(v->data.s, v->data.n);
        putchar('\n');
    }
    for (size_t i = 0; i < keys.n; i++) {
        const char *below = arena_printf(a, "%s\\%s", path, keys.items[i].name);
        struct hive_key found;
        if (hive_find(h, key, keys.items[i].name, &found, err) == 1 &&
            found.at != keys.items[i].key.at) {
            printf("found elsewhere: %s\n", below);
        }
        if (print_key(h, a, keys.items[i].key, below, err) < 0) {
            return -1;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    static char bytes[32 << 20];
    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        size_t n = file ? fread(bytes, 1, sizeof bytes, file) : 0;
        struct arena a;
        struct hive h;
        struct gm_err err;
        if (!file || fclose(file) != 0) {
            return 2;
        }
        arena_init(&a, 0, NULL, NULL);
        if (hive_open(&h, bytes, n, &err) < 0 || print_key(&h, &a, hive_root(&h), "", &err) < 0) {
            printf("error: %s\n", err.text);
        } else {
            printf("dirty: %s\n", h.dirty ? "yes" : "no");
        }
        arena_release(&a);
    }
    return 0;
}
