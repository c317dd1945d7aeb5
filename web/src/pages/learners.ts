// The learners and what may be chosen of them: api/proto/hindsight/v1/spec.proto.

/** Option is a field of a learner's message. */
export interface Option {
  /** Its name in JSON. */
  name: string;
  label: string;
  kind: "number" | "numbers" | "boolean" | "kernel" | "kernels" | "choice";
  /** What happens without it. */
  hint: string;
  choices?: readonly (readonly [string, string])[];
}

export interface Learner {
  /** Its field in ModelSpec, in JSON. */
  name: string;
  label: string;
  about: string;
  options: Option[];
}

export const KERNELS = [
  ["KIND_GAUSSIAN", "Gaussian"], ["KIND_LAPLACIAN", "Laplacian"], ["KIND_MATERN_12", "Matérn 1/2"],
  ["KIND_MATERN_32", "Matérn 3/2"], ["KIND_MATERN_52", "Matérn 5/2"], ["KIND_CAUCHY", "Cauchy"],
  ["KIND_RATIONAL_QUADRATIC", "rational quadratic"], ["KIND_POLYNOMIAL", "polynomial"], ["KIND_LINEAR", "linear"],
] as const;

const number = (name: string, label: string, hint: string): Option => ({ name, label, kind: "number", hint });
const flag = (name: string, label: string, hint: string): Option => ({ name, label, kind: "boolean", hint });

const kernel: Option = { name: "kernel", label: "Kernel", kind: "kernel", hint: "Default: Gaussian, σ = 1." };
const kernels: Option = { name: "kernels", label: "Bandwidths σ of Gaussian kernels", kind: "kernels", hint: "Default: σ² of 0.1, 1 and 10." };
const lambda = number("lambda", "Ridge λ", "Default 0.1.");
const forgetting = number("forgetting", "Forgetting factor", "The past counts so much each round, 0.01 to 1. Default 1.");
const frequencies = number("frequencies", "Random frequencies", "Default 50.");
const orthogonal = flag("orthogonal", "Orthogonal frequencies", "Default: yes.");
const lambdas: Option = { name: "lambdas", label: "Ridges to mix", kind: "numbers", hint: "2 to 16, ascending, in place of λ." };
const range: Option = { name: "range", label: "Range of labels", kind: "numbers", hint: "The lowest and the highest label." };
const track = flag("trackRegret", "Track regret", "Default: yes, where the loss is squared.");
const epsilon = number("epsilon", "KORS approximation ε", "Default 0.5.");
const beta = number("beta", "KORS oversampling β", "Default 1.");
const maxObservations = number("maxObservations", "Most observations kept", "Default 4000.");
const maxDictionary = number("maxDictionary", "Most dictionary centres", "Default 512.");

const loss = (...more: (readonly [string, string])[]): Option => ({
  name: "loss", label: "Loss", kind: "choice", hint: "Default: squared.",
  choices: [["LOSS_SQUARED", "squared"], ["LOSS_LOGISTIC", "logistic"], ...more],
});
const firstOrderLoss = loss(["LOSS_HINGE", "hinge"]);
const newtonLoss = loss(["LOSS_SQUARED_HINGE", "squared hinge"]);

const firstOrder = (step: string): Option[] => [
  frequencies, firstOrderLoss, number("step", "Step of the gradient descent", step), number("lambda", "Ridge λ", "Default 1e-4."),
];
const newton: Option[] = [
  newtonLoss, range, number("clip", "Largest score", "Of losses other than squared. Default 5; 1 for the squared hinge."),
  number("eta", "Step η", "Default: the largest that the theorem allows."), number("alpha", "Ridge α", "Default 1."),
];

export const LEARNERS: Learner[] = [
  { name: "auto", label: "auto", about: "Mixes many learners and the trivial predictors. Nothing needs to be chosen.", options: [
    number("lags", "Last labels as inputs", "0 to 8. Default 2."), frequencies,
    number("maxMicroseconds", "Most microseconds of an Observe", "Decides which experts there are. Default 500."),
  ] },
  { name: "pkawvTaylor", label: "pkawv_taylor", about: "PKAWV over the Taylor basis of the Gaussian kernel. Certified, for few inputs.", options: [
    number("sigma", "Bandwidth σ", "Default 1."), number("degree", "Largest degree", "Default: what fits."), lambda,
    number("maxFeatures", "Most features", "Default 512."), forgetting, lambdas, range,
  ] },
  { name: "pkawvNystrom", label: "pkawv_nystrom", about: "PKAWV over a dictionary of observed inputs that grows.", options: [
    kernel, lambda, number("mu", "KORS accuracy μ", "Default 0.1."), epsilon, beta, maxDictionary, forgetting, lambdas, range,
  ] },
  { name: "fourierAwv", label: "fourier_awv", about: "The AWV forecaster over random Fourier features. Certified.", options: [
    kernel, frequencies, orthogonal, lambda, forgetting, lambdas, range,
  ] },
  { name: "linearAwv", label: "linear_awv", about: "The AWV forecaster on the inputs and a constant. Certified, and has weights to read.", options: [
    lambda, forgetting, lambdas, range,
  ] },
  { name: "semiparametricAwv", label: "semiparametric_awv", about: "A linear model, and random features of what it leaves.", options: [
    number("parametricLambda", "Ridge of the linear part", "Default 0.1."), kernel, frequencies,
    number("lambda", "Ridge of the rest", "Default 1."), forgetting,
  ] },
  { name: "kernelAwv", label: "kernel_awv", about: "Exact Kernel-AWV, the reference. Its cost grows with the observations.", options: [kernel, lambda, maxObservations] },
  { name: "raker", label: "raker", about: "Gradient descent over the random features of several kernels.", options: [
    kernels, ...firstOrder("Default 0.25; 10 unless the loss is squared."), number("weightStep", "Step of the kernel weights", "Default 0.5."), track,
  ] },
  { name: "adaRaker", label: "ada_raker", about: "Raker over a hierarchy of intervals: for what changes.", options: [
    kernels, ...firstOrder("Default 0.5; 35 unless the loss is squared."), number("stepCap", "Cap of the steps", "Default 0.5; 25 unless the loss is squared."),
    number("weightStep", "Step of the kernel weights", "Default 0.5."), number("baseInterval", "Shortest interval", "Default 1."), track,
  ] },
  { name: "fogd", label: "fogd", about: "Gradient descent over the random features of one kernel: cheapest.", options: [
    kernel, ...firstOrder("Default 0.25; 10 unless the loss is squared."), number("decay", "Decay of the step", "0 to 1. Default 0."),
    flag("average", "Predict by the average function", "Default: no."), track,
  ] },
  { name: "rlsc", label: "rlsc", about: "Least squares classification: classes that may appear at any time.", options: [
    { ...kernel, hint: "Default: none, the inputs themselves." }, number("frequencies", "Random frequencies", "Default 100."), lambda,
    number("recoding", "Favour of rare classes", "0 to 1. Default 0.5."), forgetting,
  ] },
  { name: "fourierKons", label: "fourier_kons", about: "Online Newton steps over random Fourier features.", options: [kernel, frequencies, orthogonal, ...newton, track] },
  { name: "prosNKons", label: "pros_n_kons", about: "Online Newton steps over a dictionary that grows.", options: [
    kernel, ...newton, track, number("mu", "KORS accuracy μ", "Default 0.1."), epsilon, beta, maxDictionary,
  ] },
  { name: "kons", label: "kons", about: "Online Newton steps in the whole space of a kernel, the reference.", options: [
    kernel, ...newton, number("gamma", "Least probability γ", "Below 1 it is sketched. Default 1."), epsilon, beta, maxObservations,
  ] },
];

/** snake writes a JSON name as the server's messages do. */
export function snake(name: string): string {
  return name.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`);
}
