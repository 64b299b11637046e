// One fault of a program's own: what a job that crashes does to the driver's log.
#include <csignal>
#include <cstdio>
#include <cstring>
#include <unistd.h>

__global__ void nowhere() { *(volatile int *)0x10 = 1; }
__global__ void misaligned(int *at) { *(volatile int *)((char *)at + 1) = 1; }
__global__ void trap() { asm("trap;"); }
__global__ void forever() {
    for (;;) __nanosleep(1000);
}

int main(int count, char **words) {
    if (count != 3) return 2;
    int blocks = 0, *memory = nullptr;
    sscanf(words[2], "%d", &blocks);
    if (cudaMalloc(&memory, 4096) != cudaSuccess) return 3;
    if (!strcmp(words[1], "nowhere")) nowhere<<<blocks, 32>>>();
    if (!strcmp(words[1], "misaligned")) misaligned<<<blocks, 32>>>(memory);
    if (!strcmp(words[1], "trap")) trap<<<blocks, 32>>>();
    if (!strcmp(words[1], "killed")) {
        forever<<<blocks, 32>>>();
        if (cudaGetLastError() != cudaSuccess) return 3;
        sleep(1);
        raise(SIGKILL);
    }
    if (cudaGetLastError() != cudaSuccess) return 3;
    return cudaDeviceSynchronize() == cudaSuccess ? 0 : 1;
}
