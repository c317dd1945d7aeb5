// Learns the sum of two numbers over gRPC, by the proto files alone.
//
//     cd examples/node && npm ci && node round.mjs [localhost:50051]

import { randomUUID } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import grpc from '@grpc/grpc-js'
import loader from '@grpc/proto-loader'

const directory = path => fileURLToPath(new URL(`../../${path}`, import.meta.url))
const definition = loader.loadSync(['hindsight/v1/prediction.proto', 'hindsight/v1/model.proto'], {
  includeDirs: [directory('api/proto'), directory('third_party/googleapis')],
  keepCase: true, // prediction_id, not predictionId
  longs: Number,
  enums: String,
  oneofs: true, // An optional field that is absent has no value, so 0 is 0.
})
const { PredictionService, ModelService } = grpc.loadPackageDefinition(definition).hindsight.v1

// A call that no server answered is sent again by gRPC. The ids are in the request, so
// that nothing is learned twice.
const retryPolicy = {
  maxAttempts: 5, initialBackoff: '0.1s', maxBackoff: '2s', backoffMultiplier: 2, retryableStatusCodes: ['UNAVAILABLE'],
}
const options = {
  'grpc.service_config': JSON.stringify({
    methodConfig: [
      { name: [{ service: 'hindsight.v1.PredictionService' }], retryPolicy },
      { name: [{ service: 'hindsight.v1.ModelService' }], retryPolicy },
    ],
  }),
  'grpc.keepalive_time_ms': 30000,
}
const address = process.argv[2] ?? 'localhost:50051'
const predictions = new PredictionService(address, grpc.credentials.createInsecure(), options)
const models = new ModelService(address, grpc.credentials.createInsecure(), options)

const call = (client, method, request) => new Promise((resolve, reject) => {
  client[method](request, { deadline: Date.now() + 10000 }, (error, response) => error ? reject(error) : resolve(response))
})

await call(models, 'CreateModel', { id: 'sums', spec: { dimension: 2 } })
for (let n = 1; n <= 200; n++) {
  const features = [Math.random(), Math.random()]
  const prediction_id = randomUUID()
  const { prediction } = await call(predictions, 'Predict', { model: 'sums', features, prediction_id })
  const label = features[0] + features[1]
  const { outcome } = await call(predictions, 'Observe', { model: 'sums', prediction_id, label })
  if (n % 50 === 0) {
    console.log(`${outcome.sequence}: predicted ${prediction.value.toFixed(3)}, was ${label.toFixed(3)}, recent loss ${outcome.recent_loss.toFixed(4)}`)
  }
}

// Many rows at once, learned in their order.
const observations = Array.from({ length: 100 }, () => {
  const features = [Math.random(), Math.random()]
  return { features, label: features[0] + features[1], observation_id: randomUUID() }
})
const { outcomes } = await call(predictions, 'ObserveBatch', { model: 'sums', observations })
console.log(`a batch: ${outcomes.length} observations, the last is number ${outcomes.at(-1).sequence}`)

// An error has a code, a text, and the reason for programs in grpc-status-details-bin.
try {
  await call(predictions, 'Predict', { model: 'sums', features: [1] })
} catch (error) {
  console.log(`rejected: ${grpc.status[error.code]}: ${error.details}`)
}
predictions.close()
models.close()
