// Work that the page is compared with: `work HOW MEGABYTES` says "ready", then its bytes per second.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <unistd.h>

#define DO(call) if ((call) != cudaSuccess) return 3

__global__ void spin() {
    for (long long end = clock64() + 10000000; clock64() < end;) {}
}

static double now() {
    timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

int main(int count, char **words) {
    if (count != 3) return 2;
    const char *how = words[1];
    size_t size = strtoul(words[2], nullptr, 10) << 20;
    char *of_gpu, *also, *of_host;
    alarm(120);
    DO(cudaMalloc(&of_gpu, size));
    if (!strcmp(how, "holds") || !strcmp(how, "spins")) {
        puts("ready");
        fflush(stdout);
        while (!strcmp(how, "spins")) {
            spin<<<1, 32>>>();
            DO(cudaDeviceSynchronize());
        }
        for (;;) pause();
    }
    DO(cudaMalloc(&also, size));
    DO(cudaMallocHost(&of_host, size));
    puts("ready");
    for (;;) {
        size_t bytes = 0;
        double began = now();
        do {
            if (!strcmp(how, "to_gpu")) DO(cudaMemcpy(of_gpu, of_host, size, cudaMemcpyHostToDevice));
            if (!strcmp(how, "from_gpu")) DO(cudaMemcpy(of_host, of_gpu, size, cudaMemcpyDeviceToHost));
            if (!strcmp(how, "on_gpu")) DO(cudaMemcpy(also, of_gpu, size, cudaMemcpyDeviceToDevice));
            DO(cudaDeviceSynchronize());
            bytes += size;
        } while (now() - began < 0.5);
        printf("%.0f\n", bytes / (now() - began));
        fflush(stdout);
    }
}
