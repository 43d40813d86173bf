#include "cuda/launch/tensor_core.hpp"

#include "cuda/launch/formula_data.hpp"

namespace tilefold::cuda {

DType dtype_of(HalfType type) { return type == HalfType::bf16 ? DType::bf16 : DType::f16; }

std::string kernel_name(const char* family, HalfType type, int head_dim, int value_dim) {
  std::string text =
      std::string(family) + " " + name(dtype_of(type)) + " d" + std::to_string(head_dim);
  if (value_dim != head_dim) text += "-" + std::to_string(value_dim);
  return text;
}

std::optional<std::string> type_refusal(HalfType type, const core::Geometry& geometry,
                                        const Problem& problem, const char* because) {
  const DType own = dtype_of(type);
  if (geometry.query_dtype != own || geometry.key_dtype != own || geometry.value_dtype != own)
    return std::string("it multiplies ") + name(own) + " with itself" + because;
  const Tensors& t = problem.tensors;
  if (t.query_descale.scale.present() || t.key_descale.scale.present() ||
      t.value_descale.scale.present())
    return "it takes no descale tensors";
  return std::nullopt;
}

std::optional<std::string> head_refusal(int head_dim, int value_dim, const core::Geometry& geometry,
                                        const char* copier) {
  if (geometry.head_dim > head_dim || geometry.value_dim > value_dim)
    return "its tile holds head dimensions up to " + std::to_string(head_dim) + " and " +
           std::to_string(value_dim);
  if (geometry.head_dim % 8 != 0 || geometry.value_dim % 8 != 0)
    return std::string(copier) + " moves 8 elements: head dimensions must be multiples of 8";
  return std::nullopt;
}

std::optional<std::string> range_refusal(const Problem& problem) {
  std::string reason;
  const auto mask = mask_image(problem.options.mask.node(), reason);
  if (!mask || !mask->data.program.everything()) return "its mask is one range of keys a query";
  const auto steps = score_steps(problem, reason);
  if (!steps || !steps->empty()) return "it changes no scores";
  return std::nullopt;
}

std::optional<std::string> scale_refusal(double scale) {
  if (scale > 1e-30 && scale < 1e30) return std::nullopt;
  return "it takes scales from 1e-30 to 1e30";
}

}  // namespace tilefold::cuda
