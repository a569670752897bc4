// Pictures of files as the tensors that MFG filters take and make: colours in the order B, G, R, A
// (spec: input_u8 and result_u8 are BGRA, files are RGB).
#pragma once

#include <string>

#include "core/ir/scalar.h"

namespace tile::cli {

// A picture of shape [H, W, 1 to 4] for the input `name`: input_u8 and input_u16 become
// [H, W, 4] in the order B, G, R, A, opaque where the file has no alpha; input_f32 becomes the
// brightness [H, W] in [0, 1]. Other inputs get the picture as it is.
HostTensor picture_for_input(HostTensor picture, const std::string& name);
// The tensor of the output `name` as a picture to write: result_u8 and result_u16 become R, G, B,
// A.
HostTensor picture_of_output(HostTensor tensor, const std::string& name);

}  // namespace tile::cli
