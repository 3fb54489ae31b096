// The honest answer beside a table in local memory, indexed at run time. A file of its own: the gates judge every kernel
// of a task's sources, and miss those that its baseline's have.
#include "mix.cu"

__global__ void local_table_kernel(Mix mix) {
    float table[64];
    for (int i = 0; i < 64; ++i) table[i] = i < mix.values ? mix.scores[blockIdx.x * mix.values + i] : 0.0f;
    mix_row(mix, blockIdx.x, mix.out);
    const int at = __float_as_int(mix.scores[blockIdx.x * mix.values]) & 63;
    if (threadIdx.x == 0 && table[at] == 12345.0f) mix.out[blockIdx.x * mix.columns] = table[at ^ 1];
}
LAUNCHER(local_table) {
    ROWS(local_table_kernel);
    return call.finish();
}
