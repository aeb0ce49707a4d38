/* The same as program.py, for machines with a compiler: this starts in a tenth of the time of an interpreter. */

#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <stdio.h>

extern char **environ;

static const int passed_on[] = {SIGTERM, SIGINT, SIGHUP};
static pid_t process;

static void pass_on(int number) { kill(process, number); }

static void send_all(int fork, const char *from, size_t length) {
    while (length > 0) {
        ssize_t sent = write(fork, from, length);
        if (sent <= 0)
            _exit(1);
        from += sent;
        length -= (size_t)sent;
    }
}

/* A number of the fork server; 0 if it ended. */
static int32_t received(int fork) {
    uint32_t number = 0;
    ssize_t count = recv(fork, &number, sizeof number, MSG_WAITALL);
    return count == sizeof number ? (int32_t)ntohl(number) : 0;
}

static char *append(char *at, const char *word) {
    size_t length = strlen(word);
    memcpy(at, word, length);
    return at + length;
}

int main(int count, char **words) {
    if (count < 3)
        return 2;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(words[1]) >= sizeof address.sun_path)
        return 2;
    strcpy(address.sun_path, words[1]);
    signal(SIGPIPE, SIG_IGN);
    int fork = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fork, (struct sockaddr *)&address, sizeof address) != 0)
        return 1;

    /* The folder, how many arguments, the arguments and the variables, with a zero byte between two. */
    char *folder = getcwd(NULL, 0);
    if (folder == NULL)
        return 1;
    size_t length = strlen(folder) + 32;
    for (char **word = words + 2; *word != NULL; word++)
        length += strlen(*word) + 1;
    for (char **variable = environ; *variable != NULL; variable++)
        length += strlen(*variable) + 1;
    char *message = malloc(length), *at = append(message, folder);
    if (message == NULL)
        return 1;
    at += sprintf(at, "%c%d", 0, count - 2);
    for (char **word = words + 2; *word != NULL; word++) {
        *at++ = 0;
        at = append(at, *word);
    }
    for (char **variable = environ; *variable != NULL; variable++) {
        *at++ = 0;
        at = append(at, *variable);
    }

    uint32_t head = htonl((uint32_t)(at - message));
    struct iovec part = {.iov_base = &head, .iov_len = sizeof head};
    union {
        struct cmsghdr first;
        char space[CMSG_SPACE(3 * sizeof(int))];
    } control = {0};
    struct msghdr with_streams = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    control.first.cmsg_level = SOL_SOCKET;
    control.first.cmsg_type = SCM_RIGHTS;
    control.first.cmsg_len = CMSG_LEN(3 * sizeof(int));
    memcpy(CMSG_DATA(&control.first), (int[]){0, 1, 2}, 3 * sizeof(int));
    if (sendmsg(fork, &with_streams, 0) != sizeof head)
        return 1;
    send_all(fork, message, (size_t)(at - message));

    process = received(fork);
    if (process <= 0)
        return 1;
    struct sigaction action = {.sa_handler = pass_on, .sa_flags = SA_RESTART};
    for (size_t each = 0; each < sizeof passed_on / sizeof *passed_on; each++)
        sigaction(passed_on[each], &action, NULL);
    /* The fork has them now. A server's end of a stream must not stay open here. */
    for (int stream = 0; stream < 3; stream++)
        close(stream);
    int32_t code = received(fork);
    if (code < 0) {
        signal(-code, SIG_DFL);
        kill(getpid(), -code);
    }
    _exit(code);
}
