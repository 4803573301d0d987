/* Commands of Samsung's key-value set through a stock kernel's passthrough: one a call, so that a
 * scenario can say what it sends. Linked statically, for a guest without a compiler's libraries.
 *
 *   samsung-kv DEVICE store KEY [OPTION] < VALUE      append KEY < VALUE
 *   samsung-kv DEVICE retrieve KEY BYTES [OPTION] > VALUE
 *   samsung-kv DEVICE exist KEY                       delete KEY [OPTION]
 *   samsung-kv DEVICE open PREFIX                     an iterator over keys that begin so (4 bytes)
 *   samsung-kv DEVICE keys HANDLE > KEYS              one a line, to the end
 *   samsung-kv DEVICE close HANDLE
 *
 * Prints `status 0x310 result 0` on standard error; exits with 1 if the status is not 0, with 2 if the
 * command was not sent. The key space is the namespace's number: the kernel lets no other pass. The
 * kernel passes no metadata pointer on, where the offset of a value is, so it is 0.
 *
 * A key of more than 16 bytes lies at a physical address in the command, which the kernel knows
 * nothing of: it takes root, a locked page, and a guest without an IOMMU. */
#include <errno.h>
#include <fcntl.h>
#include <linux/nvme_ioctl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { STORE = 0x81, APPEND = 0x83, RETRIEVE = 0x90, DELETE = 0xa1, ITERATOR = 0xb1, KEYS = 0xb2, EXIST = 0xb3 };
enum { PAGE = 4096, VALUE_MAX = 2 << 20, ROOM = 2 * VALUE_MAX, KEYS_END = 0x393 };

static int device, namespace;

static void fail(const char *what) {
    fprintf(stderr, "samsung-kv: %s: %s\n", what, strerror(errno));
    exit(2);
}

/* Where a page of this process is in memory. */
static uint64_t physical(const void *page) {
    uint64_t entry;
    int map = open("/proc/self/pagemap", O_RDONLY);
    off_t at = (off_t)((uintptr_t)page / PAGE * 8);
    if (map < 0 || pread(map, &entry, 8, at) != 8) fail("/proc/self/pagemap");
    close(map);
    uint64_t frame = entry & ((1ull << 55) - 1);
    if (!(entry >> 63) || !frame) {
        errno = EPERM;
        fail("the key's physical address");
    }
    return frame * PAGE;
}

static void set_key(struct nvme_passthru_cmd64 *command, const char *key) {
    size_t length = strlen(key);
    if (length < 1 || length > 256) {
        errno = EINVAL;
        fail("a key of 1 to 256 bytes");
    }
    command->cdw11 |= (uint32_t)(length - 1);
    if (length <= 16) {
        uint32_t words[4] = {0};
        memcpy(words, key, length);
        command->cdw12 = words[0], command->cdw13 = words[1];
        command->cdw14 = words[2], command->cdw15 = words[3];
        return;
    }
    char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED, -1, 0);
    if (page == MAP_FAILED) fail("a page for the key");
    memcpy(page, key, length);
    uint64_t address = physical(page);
    command->cdw12 = (uint32_t)address, command->cdw13 = (uint32_t)(address >> 32);
}

static int send(struct nvme_passthru_cmd64 *command) {
    command->nsid = (uint32_t)namespace;
    int status = ioctl(device, NVME_IOCTL_IO64_CMD, command);
    if (status < 0) fail("NVME_IOCTL_IO64_CMD");
    fprintf(stderr, "status %#x result %llu\n", status, (unsigned long long)command->result);
    return status;
}

/* Lengths go in dwords; what the last does not need is said beside. */
static void set_data(struct nvme_passthru_cmd64 *command, void *data, size_t bytes) {
    size_t padded = (bytes + 3) / 4 * 4;
    command->addr = (uintptr_t)data;
    command->data_len = (uint32_t)padded;
    command->cdw10 = (uint32_t)(padded / 4);
}

static size_t read_value(char *into) {
    size_t bytes = fread(into, 1, VALUE_MAX, stdin);
    if (ferror(stdin) || (bytes == VALUE_MAX && getchar() != EOF)) {
        errno = EFBIG;
        fail("the value");
    }
    return bytes;
}

static int keys(uint32_t handle) {
    static uint8_t buffer[4096];
    int status;
    do {
        struct nvme_passthru_cmd64 command = {.opcode = KEYS, .cdw11 = handle};
        memset(buffer, 0, sizeof buffer);
        set_data(&command, buffer, sizeof buffer);
        status = send(&command);
        if (status != 0 && status != KEYS_END) return status;
        uint32_t count, length;
        memcpy(&count, buffer, 4);
        for (size_t at = 4; count > 0; count--) {
            memcpy(&length, buffer + at, 4);
            if (at + 4 + length > sizeof buffer) {
                errno = EPROTO;
                fail("keys");
            }
            printf("%.*s\n", (int)length, buffer + at + 4);
            at += 4 + (length + 3) / 4 * 4;
        }
    } while (status != KEYS_END);
    return 0;
}

int main(int count, char **words) {
    if (count < 4) {
        fputs("samsung-kv DEVICE VERB KEY [...]; verbs: store, append, retrieve, exist, delete, open, keys, close\n", stderr);
        return 2;
    }
    const char *verb = words[2], *key = words[3], *more = count > 4 ? words[4] : "0";
    device = open(words[1], O_RDWR);
    if (device < 0) fail(words[1]);
    namespace = ioctl(device, NVME_IOCTL_ID);
    if (namespace < 0) fail("NVME_IOCTL_ID");
    /* The kernel takes few pieces of memory for one command, so they have to be large. */
    char *value = aligned_alloc(VALUE_MAX, ROOM);
    if (!value) fail("memory for the value");
    madvise(value, ROOM, MADV_HUGEPAGE);
    memset(value, 0, ROOM);
    struct nvme_passthru_cmd64 command = {0};
    uint32_t option = (uint32_t)strtoul(more, NULL, 0);
    if (!strcmp(verb, "store") || !strcmp(verb, "append")) {
        size_t bytes = read_value(value);
        command.opcode = *verb == 's' ? STORE : APPEND;
        set_data(&command, value, bytes);
        command.cdw11 = option << 8 | (uint32_t)(-bytes & 3) << 16;
        set_key(&command, key);
    } else if (!strcmp(verb, "retrieve")) {
        size_t bytes = option;
        if (bytes > VALUE_MAX) {
            errno = EINVAL;
            fail("a buffer of 2 MiB at most");
        }
        command.opcode = RETRIEVE;
        set_data(&command, value, bytes);
        command.cdw11 = (uint32_t)strtoul(count > 5 ? words[5] : "0", NULL, 0) << 8;
        set_key(&command, key);
        int status = send(&command);
        size_t got = command.result < bytes ? command.result : bytes;
        if (status == 0 && !(command.cdw11 >> 8)) fwrite(value, 1, got, stdout);
        return status != 0;
    } else if (!strcmp(verb, "exist") || !strcmp(verb, "delete")) {
        command.opcode = *verb == 'e' ? EXIST : DELETE;
        command.cdw11 = option << 8;
        set_key(&command, key);
    } else if (!strcmp(verb, "open")) {
        char prefix[5] = {0};
        snprintf(prefix, sizeof prefix, "%s", key);
        command.opcode = ITERATOR;
        command.cdw11 = (1 | 4) << 8;
        memcpy(&command.cdw12, prefix, 4);
        for (size_t at = 0; at < strlen(prefix); at++) command.cdw13 |= 0xffu << 8 * at;
    } else if (!strcmp(verb, "keys")) {
        return keys((uint32_t)strtoul(key, NULL, 0)) != 0;
    } else if (!strcmp(verb, "close")) {
        command.opcode = ITERATOR;
        command.cdw11 = 2 << 8 | (uint32_t)strtoul(key, NULL, 0);
    } else {
        errno = EINVAL;
        fail(verb);
    }
    return send(&command) != 0;
}
