// RateModel: learns how long n units of work take: seconds = fixed + n × slope, from measurements
// of which the newest count most.
//
//   RateModel model;  model.Add(1000, 0.0021);  if (model.known()) model.Predict(5000);
//
// A least-squares line over exponentially decayed measurements. While their sizes are too much
// alike to tell the two numbers apart, the fixed part stays what it was and the slope takes the
// rest.
//
// Thread-safety: a value type.
#ifndef TANDEM_WORKER_CORE_RATE_MODEL_H_
#define TANDEM_WORKER_CORE_RATE_MODEL_H_

namespace tandem::worker {

class RateModel {
 public:
  // REQUIRES: units > 0, seconds >= 0, both finite.
  void Add(double units, double seconds);

  bool known() const { return weight_ > 0; }
  // Seconds a unit, > 0. REQUIRES: known(), as all below.
  double slope() const { return slope_; }
  double fixed() const { return fixed_; }
  double Predict(double units) const { return fixed_ + units * slope_; }

 private:
  double weight_ = 0;
  double sum_n_ = 0, sum_s_ = 0, sum_nn_ = 0, sum_ns_ = 0;
  double slope_ = 0;
  double fixed_ = 0;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_CORE_RATE_MODEL_H_
