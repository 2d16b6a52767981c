/* Where pip puts what it installs. */
#include <string.h>
#include <sys/stat.h>

#include "base/root.h"
#include "py/env.h"

/* pip's test_writable_dir(): of a folder that is not there, the first above it that is. */
static bool is_writable_by(struct py_env *env, const char *dir, unsigned uid)
{
    struct stat st;
    while (root_stat(env->root, dir, &st) < 0) {
        if (!dir[1]) {
            return true;
        }
        dir = path_dir(env->arena, dir);
    }
    // Which groups the user is in is not known here.
    return uid == 0 || (st.st_uid == uid ? st.st_mode & S_IWUSR : st.st_mode & (S_IWGRP | S_IWOTH));
}

static bool is_of_an_ordinary_user(struct py_env *env, const char *dir)
{
    struct stat st;
    return root_stat(env->root, dir, &st) == 0 && st.st_uid != 0;
}

const char *py_env_pip_folder(struct py_env *env, const char *beside)
{
    const char *user = env->user_site;
    if (!user || !env->purelib || env->config) {
        return env->purelib;
    }
    bool falls_back = env->root->is_host ? !is_writable_by(env, env->purelib, env->uid)
                                         : beside && strcmp(beside, user) == 0 &&
                                               is_of_an_ordinary_user(env, user);
    return falls_back ? user : env->purelib;
}
