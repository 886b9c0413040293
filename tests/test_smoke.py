from flowfabric import ClaimPolicy, CreateExecutionArgs, Engine, ExecutionId


async def test_create_claim_complete(engine: Engine) -> None:
    ident = ExecutionId.solo("default")
    await engine.create_execution(CreateExecutionArgs(execution_id=ident, input_payload=b"in"))
    handle = await engine.claim("default", (), ClaimPolicy("w", "w-1"))
    assert handle is not None
    await engine.complete(handle, b"out")
    assert await engine.get_execution_result(ident) == b"out"
