"""Functions whose kernels are Warp's: right ones, and one for each fault that the emulator must find."""

import torch
import warp as wp


@wp.func
def scaled(a: float, x: float):
    return a * x


@wp.kernel
def saxpy_kernel(a: float, x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = scaled(a, x[i]) + y[i]


def saxpy(x, y):
    out = torch.empty_like(x)
    device, stream = wp.device_from_torch(x.device), wp.stream_from_torch(x.device)
    wp.launch(saxpy_kernel, dim=x.numel(), inputs=[1.5, x, wp.from_torch(y)], outputs=[wp.from_torch(out)], device=device, stream=stream)
    return out


@wp.kernel
def transpose_kernel(x: wp.array2d(dtype=float), out: wp.array2d(dtype=float)):
    i, j = wp.tid()
    out[j, i] = x[i, j]


def transpose_of_a_view(x):
    x = x.reshape(40, 25)[:, :20]
    out = torch.empty(20, 40, device=x.device)
    wp.launch(transpose_kernel, dim=(40, 20), inputs=[wp.from_torch(x)], outputs=[out], block_dim=64, device="cuda")
    return out


@wp.kernel
def vectors_kernel(x: wp.array(dtype=wp.vec3), turn: wp.mat33, out: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    out[i] = turn * x[i]


def turned(x):
    x = x[:999].reshape(333, 3).contiguous()
    out = torch.empty_like(x)
    turn = wp.mat33(0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    wp.launch(vectors_kernel, dim=333, inputs=[wp.from_torch(x, dtype=wp.vec3), turn], outputs=[wp.from_torch(out, dtype=wp.vec3)])
    return out


@wp.struct
class Pair:
    left: wp.array(dtype=float)
    right: wp.array(dtype=float)


@wp.kernel
def pair_kernel(pair: Pair, tile_size: int, out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = pair.left[i] + pair.right[i] + float(tile_size)


def arrays_in_a_structure(x):
    pair, out = Pair(), torch.empty_like(x)
    pair.left, pair.right = wp.from_torch(x), wp.from_torch(x)
    wp.launch(pair_kernel, dim=x.numel(), inputs=[pair, 0], outputs=[wp.from_torch(out)])
    return out


@wp.kernel
def sum_kernel(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    wp.atomic_add(out, 0, x[wp.tid()])


def sum_by_atomics(x):
    out = torch.zeros(1, device=x.device)
    wp.launch(sum_kernel, dim=x.numel(), inputs=[x], outputs=[out])
    return out


@wp.kernel
def tile_kernel(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    block = wp.tid()
    wp.tile_store(out, wp.tile_sum(wp.tile_load(x, shape=64, offset=block * 64)), offset=block)


def sum_by_tiles(x):
    out = torch.empty(15, device=x.device)
    wp.launch_tiled(tile_kernel, dim=[15], inputs=[x], outputs=[out], block_dim=64)
    return out


@wp.kernel
def shifted_kernel(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = x[i + 1]  # past the end


def shifted_without_a_bound(x):
    out = torch.empty_like(x)
    wp.launch(shifted_kernel, dim=x.numel(), inputs=[x], outputs=[out])
    return out


@wp.kernel
def lost_kernel(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[0] = out[0] + x[i]  # lost updates


def sum_by_stores(x):
    out = torch.zeros(1, device=x.device)
    wp.launch(lost_kernel, dim=x.numel(), inputs=[x], outputs=[out])
    return out


def adjoint(x):
    wp.launch(sum_kernel, dim=x.numel(), inputs=[x], outputs=[x], adj_inputs=[x], adj_outputs=[x], adjoint=True)


def doubled_on_torch_s_stream(x):
    out = torch.empty_like(x)
    with wp.ScopedStream(wp.stream_from_torch(torch.cuda.current_stream())):
        wp.launch(saxpy_kernel, dim=x.numel(), inputs=[1.0, wp.from_torch(x), wp.from_torch(x), wp.from_torch(out)])
    return out


def with_three_arguments_of_four(x):
    wp.launch(saxpy_kernel, dim=x.numel(), inputs=[1.0, wp.from_torch(x), wp.from_torch(x)])
    return x


def of_halves(x):
    out = torch.empty_like(x)
    wp.launch(saxpy_kernel, dim=x.numel(), inputs=[1.0, wp.from_torch(x.half()), wp.from_torch(x), wp.from_torch(out)])
    return out
