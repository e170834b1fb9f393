/* Copyright (c) 2026, dgxspark.fabric contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Answers the lab on the second serial port, so that it needs no ssh (1.4 s in emulation) for two small things:
 *   h NONCE               ->  h NONCE UPTIME HOSTKEY      started wholly; the public ssh host key, over a channel that is trusted
 *   c NONCE SEC NSEC      ->  c NONCE 0|errno             sets the clock, which stands still in a snapshot */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

static void first_line(const char *path, char *text, int size)
{
    FILE *file = fopen(path, "r");
    if (!file || !fgets(text, size, file))
        snprintf(text, size, "-");
    if (file)
        fclose(file);
    text[strcspn(text, "\n")] = 0;
}

int main(int count, char **arguments)
{
    int port = open(count > 1 ? arguments[1] : "/dev/ttyS1", O_RDWR | O_NOCTTY);
    struct termios mode;
    if (port < 0 || tcgetattr(port, &mode)) {
        perror("serial port");
        return 1;
    }
    cfmakeraw(&mode);
    mode.c_cflag |= CLOCAL;
    tcsetattr(port, TCSANOW, &mode);
    FILE *in = fdopen(port, "r");
    char line[256], nonce[64], uptime[64], key[512];
    while (fgets(line, sizeof(line), in)) {
        long seconds, nanoseconds;
        if (sscanf(line, "h %63s", nonce) == 1) {
            first_line("/proc/uptime", uptime, sizeof(uptime));
            uptime[strcspn(uptime, " ")] = 0;
            first_line("/etc/ssh/ssh_host_ed25519_key.pub", key, sizeof(key));
            dprintf(port, "h %s %s %s\n", nonce, uptime, key);
        } else if (sscanf(line, "c %63s %ld %ld", nonce, &seconds, &nanoseconds) == 3) {
            struct timespec now = {.tv_sec = seconds, .tv_nsec = nanoseconds};
            dprintf(port, "c %s %d\n", nonce, clock_settime(CLOCK_REALTIME, &now) ? errno : 0);
        }
    }
    return 1;
}
