/* NCCL where the wheels of PyTorch and TensorFlow put it, nvidia/nccl/lib of a site-packages; see nccl_min.h. */
#include <dirent.h>
#include <string.h>
#include <unistd.h>

#include "net/nccl_min.h"

#define LIBRARY "nvidia/nccl/lib/libnccl.so.2"

/* One more line, if it is there. */
static void add(hri_text *out, const char *folder, size_t length, const char *rest) {
    hri_text path = {0};
    hri_text_add(&path, "%.*s/%s", (int)length, folder, rest);
    if (length && !path.failed && access(hri_text_get(&path), R_OK) == 0) {
        hri_text_add(out, "%s\n", hri_text_get(&path));
    }
    hri_text_deinit(&path);
}

/* Folders joined by ':', each of which may be a site-packages or the nvidia folder in one. */
static void add_folders(hri_text *out, const char *folders) {
    while (folders && *folders) {
        const size_t length = strcspn(folders, ":");
        add(out, folders, length, LIBRARY);
        add(out, folders, length, LIBRARY + sizeof "nvidia");
        folders += length + (folders[length] == ':');
    }
}

/* PREFIX/lib/python3*: every Python of an environment. */
static void add_prefix(hri_text *out, const char *prefix, const char *lib) {
    hri_text where = {0};
    if (!prefix || !*prefix) {
        return;
    }
    hri_text_add(&where, "%s/%s", prefix, lib);
    DIR *folder = !where.failed ? opendir(hri_text_get(&where)) : NULL;
    for (const struct dirent *e = folder ? readdir(folder) : NULL; e; e = readdir(folder)) {
        static const char *const names[] = {"site-packages", "dist-packages"};
        for (int i = 0; strncmp(e->d_name, "python3", 7) == 0 && i < 2; i++) {
            hri_text packages = {0};
            hri_text_add(&packages, "%s/%s/%s", hri_text_get(&where), e->d_name, names[i]);
            const char *text = hri_text_get(&packages);
            add(out, text, strlen(text), LIBRARY);
            hri_text_deinit(&packages);
        }
    }
    if (folder) {
        closedir(folder);
    }
    hri_text_deinit(&where);
}

void hri_nccl_places(hri_who_env *env, void *user, const char *root, hri_text *out) {
    add_folders(out, env(user, "HEADROOM_CUDA_PATH"));
    add_folders(out, env(user, "PYTHONPATH"));
    add_prefix(out, env(user, "VIRTUAL_ENV"), "lib");
    add_prefix(out, env(user, "CONDA_PREFIX"), "lib");
    add_prefix(out, env(user, "HOME"), ".local/lib");
    add_prefix(out, root, "usr/local/lib");
    add_prefix(out, root, "usr/lib");
    add_prefix(out, root, "opt/conda/lib");
}
