/* Copyright (c) 2026, dgxspark.fabric contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Stand-in of nccl-tests for machines without a GPU: takes the same arguments, moves real data between the ranks in ring order over MPI
 * and over the fabric's own addresses, checks every value, and prints the same table. It has no NCCL in it, writes no NCCL log, and says what it
 * is in its version line; it proves order, launch, deadlines and reports, and never a transport.
 *
 * The name that it is called by is the test: all_reduce_perf, all_gather_perf, reduce_scatter_perf, broadcast_perf, sendrecv_perf, alltoall_perf.
 *
 * Data goes from each rank to the next over TCP, over every network that both have an RDMA device of NCCL_IB_HCA in, in turn (both rails of
 * their cable); where NCCL_IB_HCA names no device, over MPI. Two neighbours in the ring without a common network are an error, as with NCCL.
 *
 * STAND_IN_HANG=1 hangs after the table's head, STAND_IN_WRONG=1 spoils one value, STAND_IN_EXIT=n ends with status n.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <libgen.h>
#include <mpi.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define VERSION "2.19.6"
#define MARK "stand-in of dgxspark.fabric"
#ifndef SYSFS
#define SYSFS "/sys/class/infiniband"
#endif
#define LINKS 4
#define CHUNK 65536

enum kind { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, SENDRECV, ALLTOALL, KINDS };

static const struct {
    const char *name, *redop;
    int root;
} TESTS[KINDS] = {
    {"all_reduce_perf", "sum", -1}, {"all_gather_perf", "none", -1}, {"reduce_scatter_perf", "sum", -1},
    {"broadcast_perf", "none", 0},  {"sendrecv_perf", "sum", -1},    {"alltoall_perf", "none", -1},
};

struct address {
    char name[64];
    uint32_t host; /* network order */
    uint32_t network;
};

static int rank, ranks, links;
static int out_sockets[LINKS], in_sockets[LINKS];
static enum kind test = KINDS;

static void fail(const char *format, ...)
{
    char host[256] = "";
    va_list list;
    gethostname(host, sizeof host - 1);
    fprintf(stderr, "%s: Test failure stand_in.c: ", host);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, 3);
    exit(3);
}

/* ---- the fabric: one TCP connection to the next rank, and one from the one before, over each common network ---- */

static void interface_of(const char *device, char *interface, size_t size)
{
    char path[256];
    interface[0] = 0;
    for (int index = 0; index < 8 && !interface[0]; index++) {
        snprintf(path, sizeof path, SYSFS "/%s/ports/1/gid_attrs/ndevs/%d", device, index);
        FILE *stream = fopen(path, "r");
        if (!stream)
            continue;
        if (!fgets(interface, (int)size, stream))
            interface[0] = 0;
        interface[strcspn(interface, "\n")] = 0;
        fclose(stream);
    }
}

static int own_addresses(struct address *found)
{
    const char *chosen = getenv("NCCL_IB_HCA");
    char copy[512], *place = NULL;
    int count = 0;
    struct ifaddrs *all = NULL;
    if (!chosen || !*chosen || getifaddrs(&all))
        return 0;
    snprintf(copy, sizeof copy, "%s", chosen + strspn(chosen, "="));
    for (char *device = strtok_r(copy, ",", &place); device && count < LINKS; device = strtok_r(NULL, ",", &place)) {
        char interface[64];
        device[strcspn(device, ":")] = 0;
        interface_of(device, interface, sizeof interface);
        for (struct ifaddrs *each = all; each && interface[0]; each = each->ifa_next) {
            if (!each->ifa_addr || each->ifa_addr->sa_family != AF_INET || strcmp(each->ifa_name, interface))
                continue;
            struct address *mine = &found[count++];
            snprintf(mine->name, sizeof mine->name, "%s", device);
            mine->host = ((struct sockaddr_in *)each->ifa_addr)->sin_addr.s_addr;
            mine->network = mine->host & ((struct sockaddr_in *)each->ifa_netmask)->sin_addr.s_addr;
            break;
        }
    }
    freeifaddrs(all);
    return count;
}

static int bound_socket(uint32_t host, uint16_t *port)
{
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr.s_addr = host};
    socklen_t size = sizeof place;
    int one = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (one < 0 || bind(one, (struct sockaddr *)&place, sizeof place))
        fail("no socket on a fabric address: %s", strerror(errno));
    if (port && (listen(one, 1) || getsockname(one, (struct sockaddr *)&place, &size)))
        fail("listening on a fabric address: %s", strerror(errno));
    if (port)
        *port = place.sin_port;
    return one;
}

static void connect_fabric(void)
{
    struct address mine[LINKS], next[LINKS], before[LINKS];
    uint16_t ports[LINKS] = {0}, next_ports[LINKS] = {0};
    int listeners[LINKS], count, counts[3] = {0}, total = 0, ways = 0;
    int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;

    memset(mine, 0, sizeof mine);
    count = counts[0] = own_addresses(mine);
    MPI_Allreduce(&count, &total, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!total || ranks < 2)
        return; /* no rank goes over the fabric unless all can */
    for (int i = 0; i < count; i++)
        listeners[i] = bound_socket(mine[i].host, &ports[i]);
    MPI_Sendrecv(&count, 1, MPI_INT, to, 1, &counts[1], 1, MPI_INT, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(&count, 1, MPI_INT, from, 2, &counts[2], 1, MPI_INT, to, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(mine, sizeof mine, MPI_BYTE, to, 3, before, sizeof before, MPI_BYTE, from, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(mine, sizeof mine, MPI_BYTE, from, 4, next, sizeof next, MPI_BYTE, to, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(ports, sizeof ports, MPI_BYTE, from, 5, next_ports, sizeof next_ports, MPI_BYTE, to, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < counts[2]; k++)
            if (mine[i].network == next[k].network && ways < LINKS) {
                struct sockaddr_in peer = {.sin_family = AF_INET, .sin_addr.s_addr = next[k].host, .sin_port = next_ports[k]};
                int one = bound_socket(mine[i].host, NULL);
                struct timeval limit = {.tv_sec = 20};
                setsockopt(one, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
                if (connect(one, (struct sockaddr *)&peer, sizeof peer))
                    fail("rank %d to rank %d over %s, %s: %s", rank, to, mine[i].name, inet_ntoa(peer.sin_addr), strerror(errno));
                out_sockets[ways++] = one;
                break;
            }
    if (!ways)
        fail("rank %d and rank %d have no network in common: no cable joins them", rank, to);
    for (int i = 0; i < count; i++) {
        int common = 0;
        for (int k = 0; k < counts[1]; k++)
            common |= mine[i].network == before[k].network;
        if (common && links < LINKS) {
            in_sockets[links] = accept(listeners[i], NULL, NULL);
            if (in_sockets[links++] < 0)
                fail("rank %d accepting from rank %d: %s", rank, from, strerror(errno));
        }
        close(listeners[i]);
    }
    MPI_Sendrecv(&ways, 1, MPI_INT, to, 6, &total, 1, MPI_INT, from, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (total != links)
        fail("rank %d has %d connections from rank %d, which made %d", rank, links, from, total);
    links = ways;
}

static ssize_t send_nowait(int socket, const char *data, size_t size) { return send(socket, data, size, MSG_DONTWAIT | MSG_NOSIGNAL); }

/* Send a block to the next rank while receiving one from the rank before, both ways over all connections in turn. */
static void step(const char *send, char *receive, size_t size)
{
    int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
    size_t sent = 0, received = 0, per_link;
    size_t sent_on[LINKS] = {0}, received_on[LINKS] = {0};
    if (!links) {
        MPI_Sendrecv(send, (int)size, MPI_BYTE, to, 7, receive, (int)size, MPI_BYTE, from, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        return;
    }
    per_link = (size + (size_t)links - 1) / (size_t)links;
    while (sent < size || received < size) {
        struct pollfd waiting[2 * LINKS];
        int kinds[2 * LINKS], places[2 * LINKS], count = 0;
        for (int i = 0; i < links; i++) {
            size_t begin = per_link * (size_t)i, share = begin >= size ? 0 : size - begin < per_link ? size - begin : per_link;
            if (sent_on[i] < share)
                waiting[count] = (struct pollfd){.fd = out_sockets[i], .events = POLLOUT}, kinds[count] = 0, places[count++] = i;
            if (received_on[i] < share)
                waiting[count] = (struct pollfd){.fd = in_sockets[i], .events = POLLIN}, kinds[count] = 1, places[count++] = i;
        }
        if (poll(waiting, (nfds_t)count, -1) < 0)
            fail("poll: %s", strerror(errno));
        for (int w = 0; w < count; w++) {
            int i = places[w];
            size_t begin = per_link * (size_t)i, share = size - begin < per_link ? size - begin : per_link, done = kinds[w] ? received_on[i] : sent_on[i];
            size_t want = share - done < CHUNK ? share - done : CHUNK;
            ssize_t got;
            if (!waiting[w].revents)
                continue;
            got = kinds[w] ? recv(waiting[w].fd, receive + begin + done, want, MSG_DONTWAIT)
                           : send_nowait(waiting[w].fd, send + begin + done, want);
            if (got < 0 && (errno == EAGAIN || errno == EINTR))
                continue;
            if (got <= 0)
                fail("rank %d lost its connection %s rank %d: %s", rank, kinds[w] ? "from" : "to", kinds[w] ? from : to, got ? strerror(errno) : "closed");
            if (kinds[w])
                received_on[i] += (size_t)got, received += (size_t)got;
            else
                sent_on[i] += (size_t)got, sent += (size_t)got;
        }
    }
}

/* ---- the collectives, each round the ring ---- */

/* Value at a place of a rank's contribution: small whole numbers, so that sums are exact in float. */
static float value(int owner, size_t place) { return (float)((owner + 1) * (int)(place % 61 + 1)); }

static float sum_value(size_t place) { return (float)(ranks * (ranks + 1) / 2 * (int)(place % 61 + 1)); }

static size_t reduce_blocks(float *data, size_t count, float *scratch, int gather)
{
    size_t block = (count + (size_t)ranks - 1) / (size_t)ranks;
    for (int round = 0; round < ranks - 1; round++) {
        size_t give = (size_t)((rank - round + ranks) % ranks), take = (size_t)((rank - round - 1 + 2 * ranks) % ranks);
        step((char *)(data + give * block), (char *)scratch, block * sizeof *data);
        for (size_t i = 0; i < block; i++)
            data[take * block + i] += scratch[i];
    }
    for (int round = 0; gather && round < ranks - 1; round++) {
        size_t give = (size_t)((rank + 1 - round + ranks) % ranks), take = (size_t)((rank - round + ranks) % ranks);
        step((char *)(data + give * block), (char *)(data + take * block), block * sizeof *data);
    }
    return block;
}

/* Do the collective once over ``count`` values (those of nccl-tests' column); return the number of wrong values. */
static long once(size_t count, float *data, float *scratch, int check, int spoil)
{
    long wrong = 0;
    size_t block = (count + (size_t)ranks - 1) / (size_t)ranks;
    switch (test) {
    case ALL_REDUCE:
    case REDUCE_SCATTER: {
        size_t total = test == ALL_REDUCE ? count : count * (size_t)ranks;
        for (size_t i = 0; i < total; i++)
            data[i] = value(rank, i);
        block = reduce_blocks(data, total, scratch, test == ALL_REDUCE);
        data[test == ALL_REDUCE ? 0 : (size_t)((rank + 1) % ranks) * block] += (float)spoil;
        size_t begin = test == ALL_REDUCE ? 0 : (size_t)((rank + 1) % ranks) * block, end = test == ALL_REDUCE ? count : begin + block;
        for (size_t i = begin; check && i < end && i < total; i++)
            wrong += data[i] != sum_value(i);
        return wrong;
    }
    case ALL_GATHER:
        for (size_t i = 0; i < count; i++)
            data[(size_t)rank * count + i] = value(rank, i);
        for (int round = 0; round < ranks - 1; round++) {
            size_t give = (size_t)((rank - round + ranks) % ranks), take = (size_t)((rank - round - 1 + 2 * ranks) % ranks);
            step((char *)(data + give * count), (char *)(data + take * count), count * sizeof *data);
        }
        data[0] += (float)spoil;
        for (int owner = 0; check && owner < ranks; owner++)
            for (size_t i = 0; i < count; i++)
                wrong += data[(size_t)owner * count + i] != value(owner, i);
        return wrong;
    case BROADCAST:
        for (size_t i = 0; i < count; i++)
            data[i] = rank == 0 ? value(0, i) : -1.0f;
        for (int round = 0; round < ranks - 1; round++) { /* everybody hands on what it has; after n-1 steps all have the root's */
            step((char *)data, (char *)scratch, count * sizeof *data);
            if (rank)
                memcpy(data, scratch, count * sizeof *data);
        }
        data[0] += (float)spoil;
        for (size_t i = 0; check && i < count; i++)
            wrong += data[i] != value(0, i);
        return wrong;
    case SENDRECV:
        for (size_t i = 0; i < count; i++)
            data[i] = value(rank, i);
        step((char *)data, (char *)scratch, count * sizeof *data);
        scratch[0] += (float)spoil;
        for (size_t i = 0; check && i < count; i++)
            wrong += scratch[i] != value((rank + ranks - 1) % ranks, i);
        return wrong;
    default: { /* ALLTOALL: block k of the result is rank k's block for us; blocks travel round the ring to their place */
        size_t total = block * (size_t)ranks;
        for (size_t i = 0; i < total; i++)
            data[i] = value(rank, i);
        for (int round = 1; round < ranks; round++) {
            int owner = (rank - round + ranks) % ranks;
            step((char *)data, (char *)scratch, total * sizeof *data);
            memcpy(data, scratch, total * sizeof *data);
            data[0] += (float)(spoil && round == 1);
            for (size_t i = 0; check && i < block; i++) {
                size_t place = (size_t)rank * block + i;
                wrong += data[place] != value(owner, place);
            }
        }
        return wrong;
    }
    }
}

static double factor_of(void)
{
    double n = ranks;
    if (ranks < 2)
        return 0;
    return test == ALL_REDUCE ? 2 * (n - 1) / n : test == BROADCAST || test == SENDRECV ? 1 : (n - 1) / n;
}

/* ---- arguments and the table ---- */

static long long bytes_of(const char *text)
{
    char *end;
    double number = strtod(text, &end);
    int power = *end == 'K' || *end == 'k' ? 10 : *end == 'M' || *end == 'm' ? 20 : *end == 'G' || *end == 'g' ? 30 : 0;
    return number < 0 || (power && end[1]) || (!power && *end) ? -1 : (long long)(number * (double)(1LL << power));
}

static void number(char *text, size_t size, double value)
{
    snprintf(text, size, value < 100 ? "%.2f" : value < 10000 ? "%.1f" : "%.0f", value);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

struct place {
    double us, algbw, busbw;
    long wrong;
};

static struct place measure(size_t count, size_t size, float *data, float *scratch, int iterations, int warmup, int check)
{
    struct place result = {0};
    double began, mine, longest;
    long wrong = 0;
    for (int i = 0; i < warmup; i++)
        once(count, data, scratch, 0, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    began = now();
    for (int i = 0; i < iterations; i++)
        once(count, data, scratch, 0, 0);
    mine = (now() - began) / iterations;
    if (check)
        wrong = once(count, data, scratch, 1, getenv("STAND_IN_WRONG") && rank == 0);
    MPI_Allreduce(&mine, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(&wrong, &result.wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    result.us = longest * 1e6;
    result.algbw = (double)size / longest / 1e9;
    result.busbw = result.algbw * factor_of();
    return result;
}

static void print_place(const struct place *place, int check)
{
    char time[32], wrong[32];
    number(time, sizeof time, place->us);
    snprintf(wrong, sizeof wrong, check ? "%ld" : "N/A", place->wrong);
    printf("  %7s  %6.2f  %6.2f  %6s", time, place->algbw, place->busbw, wrong);
}

static void json_place(FILE *file, const char *name, const struct place *place, int check)
{
    fprintf(file, "\"%s\": {\"time\": %f, \"alg_bw\": %f, \"bus_bw\": %f, \"nwrong\": ", name, place->us, place->algbw, place->busbw);
    fprintf(file, check ? "%ld.0}" : "null}", place->wrong);
}

int main(int argc, char **argv)
{
    long long least = 32 << 20, most = 32 << 20, stride = 1 << 20;
    int iterations = 20, warmup = 1, check = 1, factor = 1, option, first = 1, rows = 0;
    char host[256] = "", (*hosts)[256];
    const char *json_path = NULL;
    FILE *json = NULL;
    double total = 0;
    long wrong = 0;
    const char *name = basename(argv[0]);

    for (int i = 0; i < KINDS; i++)
        if (!strcmp(name, TESTS[i].name))
            test = (enum kind)i;
    if (test == KINDS) {
        fprintf(stderr, "%s: call it by the name of a test, such as all_reduce_perf\n", name);
        return 255;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    while ((option = getopt(argc, argv, "b:e:i:f:g:t:n:w:c:o:d:r:m:p:z:y:T:h:C:a:R:x:J:S:M:I:K:N:u:")) != -1) {
        switch (option) {
        case 'b': least = bytes_of(optarg); break;
        case 'e': most = bytes_of(optarg); break;
        case 'i': stride = bytes_of(optarg); break;
        case 'f': factor = atoi(optarg); break;
        case 'n': iterations = atoi(optarg); break;
        case 'w': warmup = atoi(optarg); break;
        case 'c': check = atoi(optarg) != 0; break;
        case 'J': json_path = optarg; break;
        case 'g':
            if (atoi(optarg) != 1) {
                printf("Invalid number of GPUs: %d requested but only 1 were found.\n", atoi(optarg));
                MPI_Abort(MPI_COMM_WORLD, 5);
            }
            break;
        case '?': MPI_Abort(MPI_COMM_WORLD, 255); break;
        default: break; /* taken and without effect here */
        }
    }
    if (least <= 0 || most < least || iterations < 1 || factor < 1) {
        if (!rank)
            fprintf(stderr, "invalid size specified for '-b', '-e' or '-n'\n");
        MPI_Abort(MPI_COMM_WORLD, 255);
    }
    gethostname(host, sizeof host - 1);
    hosts = calloc((size_t)ranks, sizeof *hosts);
    MPI_Gather(host, sizeof host, MPI_BYTE, hosts, sizeof host, MPI_BYTE, 0, MPI_COMM_WORLD);
    int pid = (int)getpid(), *pids = calloc((size_t)ranks, sizeof pid);
    MPI_Gather(&pid, 1, MPI_INT, pids, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (!rank) {
        if (json_path && (json = fopen(json_path, "wx")))
            printf("# Writing JSON output to %s\n", json_path);
        printf("# nccl-tests version %s nccl-headers=0 nccl-library=0 (%s: MPI on processors, no GPU, no NCCL)\n", VERSION, MARK);
        printf("# Collective test starting: %s\n", name);
        printf("# nThread 1 nGpus 1 minBytes %lld maxBytes %lld step: %lld(%s) warmup iters: %d iters: %d agg iters: 1 validation: %d graph: 0 unalign: 0\n",
               least, most, factor > 1 ? (long long)factor : stride, factor > 1 ? "factor" : "bytes", warmup, iterations, check);
        printf("#\n# Using devices\n");
        for (int i = 0; i < ranks; i++)
            printf("#  Rank %2d Group  0 Pid %6d on %10s device  0 [0000:00:00] none (%s)\n", i, pids[i], hosts[i], MARK);
        printf("#\n# %59s %37s\n# %10s %13s %9s %7s %7s", "out-of-place", "in-place", "size", "count", "type", "redop", "root");
        for (int i = 0; i < 2; i++)
            printf("  %7s  %6s  %6s  %6s", "time", "algbw", "busbw", "#wrong");
        printf("\n# %10s %13s %9s %7s %7s", "(B)", "(elements)", "", "", "");
        for (int i = 0; i < 2; i++)
            printf("  %7s  %6s  %6s  %6s", "(us)", "(GB/s)", "(GB/s)", "");
        printf("\n");
        fflush(stdout);
    }
    if (getenv("STAND_IN_HANG"))
        for (;;)
            pause();
    connect_fabric();
    size_t room = (size_t)most / sizeof(float) + (size_t)(2 * ranks) + 2;
    float *data = calloc(room + room / 2, sizeof *data), *scratch = calloc(room + room / 2, sizeof *scratch);
    if (!data || !scratch)
        fail("no memory for %lld bytes", most);
    if (json) {
        fprintf(json, "{\n \"version\": 3, \"args\": [\"%s\"], \"env\": [], \"nccl_version\": 0,\n \"config\": {\"minimum_bytes\": %lld, "
                "\"maximum_bytes\": %lld, \"validation\": %d, \"devices\": [", name, least, most, check);
        for (int i = 0; i < ranks; i++)
            fprintf(json, "%s{\"rank\": %d, \"group\": 0, \"pid\": %d, \"hostname\": \"%s\", \"device\": 0, \"device_hex\": \"0000:00:00\", "
                    "\"device_info\": \"none (%s)\"}", i ? ", " : "", i, pids[i], hosts[i], MARK);
        fprintf(json, "]},\n \"results\": [");
    }
    for (long long size = least; size <= most; size = factor > 1 ? size * factor : size + stride) {
        size_t all = (size_t)size / sizeof(float), count = all;
        if (test == ALL_GATHER || test == REDUCE_SCATTER || test == ALLTOALL)
            all = (count /= (size_t)ranks) * (size_t)ranks;
        struct place two[2];
        for (int i = 0; i < 2; i++) {
            two[i] = measure(test == ALLTOALL ? all : count, all * sizeof(float), data, scratch, iterations, warmup, check);
            wrong += two[i].wrong;
            total += two[i].busbw;
        }
        rows++;
        if (rank)
            continue;
        printf("%12zu %13zu %9s %7s %7d", all * sizeof(float), count, "float", TESTS[test].redop, TESTS[test].root);
        print_place(&two[0], check);
        print_place(&two[1], check && test != SENDRECV && test != ALLTOALL);
        printf("\n");
        fflush(stdout);
        if (json) {
            fprintf(json, "%s\n  {\"size\": %zu, \"count\": %zu, \"type\": \"float\", \"redop\": \"%s\", \"root\": \"%6d\", ", first ? "" : ",",
                    all * sizeof(float), count, TESTS[test].redop, TESTS[test].root);
            json_place(json, "out_of_place", &two[0], check);
            fprintf(json, ", ");
            json_place(json, "in_place", &two[1], check);
            fprintf(json, ", \"actual_iterations\": %d, \"experiment_name\": \"%s\"}", iterations, name);
        }
        first = 0;
    }
    if (!rank) {
        printf("# Out of bounds values : %ld %s\n# Avg bus bandwidth    : %g \n#\n# Collective test concluded: %s\n#\n", wrong, wrong ? "FAILED" : "OK",
               rows ? total / (2 * rows) : 0.0, name);
        if (json) {
            fprintf(json, "],\n \"out_of_bounds\": {\"count\": %ld, \"okay\": \"%s\"},\n \"average_bus_bandwidth\": {\"bandwidth\": %f, \"okay\": "
                    "\"unchecked\"},\n \"errors\": [], \"end_time\": \"\"\n}\n", wrong, wrong ? "false" : "true", rows ? total / (2 * rows) : 0.0);
            fclose(json);
        }
    }
    MPI_Finalize();
    return wrong ? 7 : getenv("STAND_IN_EXIT") ? atoi(getenv("STAND_IN_EXIT")) : 0;
}
