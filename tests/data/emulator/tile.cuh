#pragma once

struct Tile {
    static constexpr int kSize = 128;
};
