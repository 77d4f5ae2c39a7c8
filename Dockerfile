# A relay node with its embedding model. Run `serve` for a whole node, or `web` and `worker` on an external Redis
# (compose.yaml).
#
#   docker build -t relay-node .
#   docker run -p 8000:8000 -v relay:/data -e RELAY_BASE_URL=https://relay.example relay-node
#
# A separate stage exports the model, so the image contains neither torch nor transformers. Every package is pinned by
# the hash of its file, wherever it comes from. torch is a build without CUDA, which takes several GB and which the
# export does not use. PyTorch has such builds in an index of its own, TORCH_INDEX.
#
# PYTHON_IMAGE may name the base image by digest: see deploy/image-digests.sh.

ARG PYTHON_IMAGE=python:3.11-slim

FROM ${PYTHON_IMAGE} AS wheels
WORKDIR /src
COPY pyproject.toml requirements.txt requirements-build.txt README.md CHANGELOG.md LICENSE ./
COPY lua ./lua
COPY node ./node
RUN python -m pip install --no-cache-dir --no-deps --require-hashes --requirement requirements-build.txt \
 && python -m pip wheel --no-cache-dir --no-deps --require-hashes --only-binary :all: --requirement requirements.txt \
    --wheel-dir /wheels \
 && python -m pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels .

FROM ${PYTHON_IMAGE} AS model
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
WORKDIR /src
COPY requirements-torch.txt ./
ENV HF_HUB_OFFLINE=1
RUN --mount=type=bind,from=wheels,source=/wheels,target=/wheels \
    python -m pip install --no-cache-dir --no-index --no-deps /wheels/*.whl \
 && python -m pip install --no-cache-dir --no-deps --require-hashes --extra-index-url "${TORCH_INDEX}" \
    --requirement requirements-torch.txt \
 && relay-node model export /model

FROM ${PYTHON_IMAGE}
RUN groupadd --system --gid 10001 relay \
 && useradd --system --uid 10001 --gid relay --home-dir /data --shell /usr/sbin/nologin relay \
 && install --directory --owner relay --group relay --mode 0700 /data
RUN --mount=type=bind,from=wheels,source=/wheels,target=/wheels \
    python -m pip install --no-cache-dir --no-index --find-links /wheels 'relay-node[embedded,search]' \
 && python -m pip check
COPY --from=model /model /usr/share/relay-node/model
ENV PYTHONUNBUFFERED=1 \
    RELAY_EMBEDDING_MODEL=/usr/share/relay-node/model \
    RELAY_HOST=0.0.0.0 \
    RELAY_PORT=8000 \
    RELAY_DATA_DIR=/data
USER 10001:10001
WORKDIR /data
VOLUME ["/data"]
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s --retries=3 \
  CMD ["python", "-c", "import os, urllib.request as web; web.urlopen(f'http://127.0.0.1:{os.environ[\"RELAY_PORT\"]}/ready', timeout=2)"]
ENTRYPOINT ["relay-node"]
CMD ["serve"]
