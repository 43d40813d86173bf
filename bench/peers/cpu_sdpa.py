"""Times attention of other CPU libraries, one call at a time, for `tilefold bench cpu`.

Reads one JSON request a line from standard input, answers one JSON line each on standard output:

    {"op": "list", "threads": 2, "peers": ["torch", "onnxruntime"]}
        -> {"peers": {"torch": "2.11.0", "onnxruntime": "1.23.0"}, "absent": {"x": "why"}}
    {"op": "time", "peer": "torch", "dtype": "f32", "batch": 1, "heads": 8, "queries": 1024,
     "keys": 1024, "head_dim": 64, "causal": true}
        -> {"seconds": 0.0123} or {"refused": "why"}

The inputs of the last shape are kept, so that a caller may interleave its own runs with ours; the
first request of a shape also makes one call that is not timed. Nothing is downloaded.

Peers: `torch` is scaled_dot_product_attention on [batch, tokens, heads, dim] memory; `onnxruntime`
is com.microsoft MultiHeadAttention; `onnxruntime-matmul` is the graph MatMul, Softmax, MatMul.
"""
import json
import sys
import time


class Torch:
    def __init__(self, threads):
        import torch
        self.torch, self.version = torch, torch.__version__
        torch.set_num_threads(threads)

    def prepare(self, r):
        torch = self.torch
        dtype = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}[r["dtype"]]
        def one(tokens):
            x = torch.randn(r["batch"], tokens, r["heads"], r["head_dim"]).to(dtype)
            return x.transpose(1, 2)
        q, k, v = one(r["queries"]), one(r["keys"]), one(r["keys"])
        attention = torch.nn.functional.scaled_dot_product_attention
        def call():
            with torch.inference_mode():
                attention(q, k, v, is_causal=r["causal"])
        return call


class OnnxRuntime:
    def __init__(self, threads):
        import numpy
        import onnx
        import onnxruntime
        self.np, self.onnx, self.ort = numpy, onnx, onnxruntime
        self.version, self.threads = onnxruntime.__version__, threads

    def prepare(self, r):
        if r["dtype"] != "f32":
            raise ValueError("timed with f32 only")
        rows, width = (r["batch"], None), r["heads"] * r["head_dim"]
        shape = lambda tokens: (rows[0], tokens, width)
        return self.session(self.graph(r, width), shape(r["queries"]), shape(r["keys"]))

    def graph(self, r, width):
        helper = self.onnx.helper
        node = helper.make_node("MultiHeadAttention", ["q", "k", "v"], ["o"], domain="com.microsoft",
                                num_heads=r["heads"], unidirectional=int(r["causal"]))
        return [node], []

    def session(self, graph, q_shape, k_shape):
        helper, FLOAT = self.onnx.helper, self.onnx.TensorProto.FLOAT
        nodes, constants = graph
        value = lambda name, shape: helper.make_tensor_value_info(name, FLOAT, shape)
        model = helper.make_model(
            helper.make_graph(nodes, "attention",
                              [value("q", q_shape), value("k", k_shape), value("v", k_shape)],
                              [value("o", None)], constants),
            opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])
        model.ir_version = 8
        options = self.ort.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.log_severity_level = 3
        session = self.ort.InferenceSession(model.SerializeToString(), options,
                                            providers=["CPUExecutionProvider"])
        random = self.np.random.default_rng(1)
        feed = {name: random.standard_normal(shape, dtype=self.np.float32)
                for name, shape in (("q", q_shape), ("k", k_shape), ("v", k_shape))}
        return lambda: session.run(None, feed)


class OnnxRuntimeMatMul(OnnxRuntime):
    def prepare(self, r):
        if r["dtype"] != "f32":
            raise ValueError("timed with f32 only")
        if r["causal"]:
            raise ValueError("the graph has no causal mask")
        shape = lambda tokens: (r["batch"], r["heads"], tokens, r["head_dim"])
        return self.session(self.graph(r, None), shape(r["queries"]), shape(r["keys"]))

    def graph(self, r, width):
        helper = self.onnx.helper
        scale = helper.make_tensor("scale", self.onnx.TensorProto.FLOAT, [1],
                                   [r["head_dim"] ** -0.5])
        nodes = [helper.make_node("Mul", ["q", "scale"], ["scaled"]),
                 helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
                 helper.make_node("MatMul", ["scaled", "kt"], ["scores"]),
                 helper.make_node("Softmax", ["scores"], ["weights"], axis=-1),
                 helper.make_node("MatMul", ["weights", "v"], ["o"])]
        return nodes, [scale]


PEERS = {"torch": Torch, "onnxruntime": OnnxRuntime, "onnxruntime-matmul": OnnxRuntimeMatMul}


def load(threads, names):
    present, absent = {}, {}
    for name in names:
        try:
            present[name] = PEERS[name](threads)
        except Exception as error:  # not installed, or installed and broken: both are facts to tell
            absent[name] = str(error)[:200]
    return present, absent


def main():
    present, absent, prepared = {}, {}, {}
    for line in sys.stdin:
        request = json.loads(line)
        if request["op"] == "list":
            present, absent = load(request["threads"], request["peers"])
            answer = {"peers": {n: p.version for n, p in present.items()}, "absent": absent}
        else:
            try:
                key = json.dumps(request, sort_keys=True)
                shape = json.dumps({**request, "peer": ""}, sort_keys=True)
                if prepared.get("shape") != shape:
                    prepared = {"shape": shape}
                if key not in prepared:
                    prepared[key] = present[request["peer"]].prepare(request)
                    prepared[key]()
                start = time.perf_counter()
                prepared[key]()
                answer = {"seconds": time.perf_counter() - start}
            except Exception as error:
                answer = {"refused": str(error)[:200]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
